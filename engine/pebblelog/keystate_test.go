package pebblelog

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestKeyStateCacheIsAMap runs random programs beside a Go map: what the cache has is right, it
// has all that was put since the last but one rotation, and pointers stay good until the next.
func TestKeyStateCacheIsAMap(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := newKeyStateCache(64)
		model, recent := map[string]uint64{}, map[string]bool{}
		held := map[string]*keyState{} // pointers of the present group
		for i := range 5000 {
			key := fmt.Appendf(nil, "key-%d", rng.IntN(300))
			name := string(key)
			switch h := c.get(key); {
			case rng.IntN(40) == 0:
				if c.young.n >= c.limit {
					clear(recent)
				}
				c.rotate()
				clear(held)
			case rng.IntN(400) == 0:
				c.clear()
				clear(model)
				clear(recent)
				clear(held)
			case rng.IntN(10) == 0:
				c.drop(key)
				delete(model, name)
				delete(recent, name)
				delete(held, name)
			case h == nil && recent[name]:
				t.Fatalf("seed %d, step %d: %s was forgotten too early", seed, i, key)
			case h != nil && (h.version != model[name] || held[name] != nil && held[name] != h):
				t.Fatalf("seed %d, step %d: %s has version %d, want %d", seed, i, key, h.version, model[name])
			case h == nil:
				held[name] = c.put(key, keyState{version: uint64(i + 1)})
				model[name], recent[name] = uint64(i+1), true
			default:
				h.version = uint64(i + 1)
				held[name], model[name], recent[name] = h, h.version, true
			}
		}
	}
}

func BenchmarkKeyStateCache(b *testing.B) {
	c := newKeyStateCache(DefaultKeyStateCache)
	var key []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		key = fmt.Appendf(key[:0], "stream-%d", i)
		if c.get(key) == nil {
			c.put(key, keyState{version: 1})
		}
		c.rotate()
	}
}

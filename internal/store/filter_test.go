package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem/internal/store"
)

// TestFilterForgetsNothing adds keys until the filter is full, and beyond.
func TestFilterForgetsNothing(t *testing.T) {
	const limit = 32 << 10 // bytes of the last part, which takes 24,576 keys
	f := store.NewFilter(limit)
	key := func(i int) []byte { return fmt.Appendf(nil, "key-%d", i) }
	if f.Has(key(0)) {
		t.Error("an empty filter has a key")
	}
	wrong, asked := 0, 0
	for i := range 30_000 {
		f.Add(key(i))
		f.Add(key(i / 2))
		for _, j := range []int{0, i / 3, i} {
			if !f.Has(key(j)) {
				t.Fatalf("with %d keys, key %d is denied", i, j)
			}
		}
		if asked++; f.Has(key(i + 1_000_000)) {
			wrong++
		}
	}
	if asked = 30_000; wrong > asked/25 {
		t.Errorf("%d of %d keys that were never added are taken for added", wrong, asked)
	}
	for i := 30_000; i < 40_000; i++ {
		f.Add(key(i))
	}
	if !f.Has(key(1 << 30)) {
		t.Error("a filter that has forgotten its keys denies one")
	}
}

// TestFilterBesideReaders asks for keys from other goroutines while they are added: who has
// heard of a key is never denied it.
func TestFilterBesideReaders(t *testing.T) {
	const keys = 20_000
	f := store.NewFilter(16 << 10) // it gets full on the way
	key := func(i int64) []byte { return fmt.Appendf(nil, "key-%d", i) }
	var added atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := int64(0); n < keys; {
				n = added.Load()
				for _, i := range []int64{n, n / 2, n / 3} {
					if i > 0 && !f.Has(key(i)) {
						t.Errorf("with %d keys, key %d is denied", n, i)
						return
					}
				}
			}
		})
	}
	for i := range int64(keys) {
		f.Add(key(i + 1))
		added.Store(i + 1)
	}
	wg.Wait()
}

func BenchmarkFilter(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			f := store.NewFilter(8 << 20)
			for i := range n {
				f.Add(fmt.Appendf(nil, "key-%d", i))
			}
			keys := make([][]byte, 1024)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "other-%d", i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_ = f.Has(keys[i%len(keys)])
			}
		})
	}
}

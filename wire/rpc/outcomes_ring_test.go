package rpc

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	wire "github.com/mainstemdev/mainstem/internal/session"
)

// TestOutcomesAreBoundedAndNeverWrong: what was recorded is found as it was, or late; what was not
// recorded is never found.
func TestOutcomesAreBoundedAndNeverWrong(t *testing.T) {
	if n := reflect.TypeFor[outcome]().Size(); n > outcomeSize {
		t.Errorf("an outcome has %d bytes", n)
	}
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		o := new(outcomes)
		all := map[uint64][]byte{}
		newest := uint64(0)
		for range 5000 {
			number := newest + 1 + random.Uint64N(3)
			newest = number
			size := random.IntN(60)
			if random.IntN(100) == 0 {
				size = random.IntN(maxBodies + maxBodies/8)
			}
			payload := bytes.Repeat([]byte{byte(number)}, size)
			o.record(number, wire.TypeData, payload)
			all[number] = payload
			if o.mu.bodies > maxBodies || len(o.mu.ring) > maxOutcomes {
				t.Fatalf("%d bytes, %d outcomes", o.mu.bodies, len(o.mu.ring))
			}
			asked := 1 + random.Uint64N(newest+5)
			kind, got, late := o.find(asked)
			want, was := all[asked]
			switch {
			case kind == wire.TypeData && (!was || !bytes.Equal(got, want)):
				t.Fatalf("seed %d: outcome %d is %d bytes, want %d, recorded: %v", seed, asked, len(got), len(want), was)
			case kind == 0 && was && !late:
				t.Fatalf("seed %d: outcome %d was recorded, and is said not to have been", seed, asked)
			case kind == 0 && asked > newest && late:
				t.Fatalf("seed %d: outcome %d cannot have been forgotten", seed, asked)
			}
		}
		if limit := int64(sessionMemory - 512<<10); o.size() > limit {
			t.Errorf("%d bytes: %d are reserved", o.size(), limit)
		}
	}
}

package pebblelog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// TestEndsAreThoseOfReads runs random programs of writes and edits, most of which have left the
// hot tier: Ends has what the first steps of two reads have, and a slot that is read without a
// drain shows what it shows after one.
func TestEndsAreThoseOfReads(t *testing.T) {
	ctx := t.Context()
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 7))
		l, err := pebblelog.OpenMemory(pebblelog.WithHotBytes(pebblelog.Options{}, tiny<<(2*(seed%3))))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		spaces := map[string]mainstem.Policy{"all": {}, "one": {History: 1}, "three": {History: 3}}
		for step := range 600 {
			space, key := []string{"all", "all", "one", "three"}[rng.IntN(4)], fmt.Appendf(nil, "key-%d", rng.IntN(12))
			commitAny(t, l, rng, space, spaces[space], key)
			if step%150 == 149 { // records that a marker covers stay behind
				spaces["three"] = mainstem.Policy{History: 4 - spaces["three"].History}
				b := mainstem.NewBatch()
				b.Ensure("three", spaces["three"])
				if _, err := l.Commit(ctx, b); err != nil {
					t.Fatal(err)
				}
				if err := l.AlterSpace(ctx, "three", spaces["three"]); err != nil {
					t.Fatal(err)
				}
			}
			before := versionsOf(t, l, space, key, mainstem.Versions{})
			oldest, newest, err := l.Ends(ctx, space, key)
			if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
				t.Fatal(err)
			}
			snap, err := l.Snapshot(ctx) // all that it shows is in Pebble
			if err != nil {
				t.Fatal(err)
			}
			all := versionsOf(t, snap, space, key, mainstem.Versions{})
			if err := snap.Close(); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(before, all) {
				t.Fatalf("seed %d, step %d: %s in %s has %+v, and %+v after a drain", seed, step, key, space, before, all)
			}
			if len(all) == 0 {
				all = make([]mainstem.Record, 1)
			}
			last, err := l.Last(ctx, space)
			if info, infoErr := l.Space(ctx, space); err != nil || infoErr == nil && last != info.Last || infoErr != nil && last != 0 {
				t.Fatalf("seed %d, step %d: the last position of %s is %d, %v, want %d, %v", seed, step, space, last, err, info.Last, infoErr)
			}
			if want := all[len(all)-1]; !reflect.DeepEqual(oldest, all[0]) || !reflect.DeepEqual(newest, want) {
				t.Fatalf("seed %d, step %d: the ends of %s in %s are %+v and %+v, want %+v and %+v", seed, step, key, space, oldest, newest, all[0], want)
			}
		}
	}
}

// commitAny writes to a key, or edits it, as far as it can be.
func commitAny(t *testing.T, l mainstem.Log, rng *rand.Rand, space string, p mainstem.Policy, key []byte) {
	t.Helper()
	b := mainstem.NewBatch()
	b.Ensure(space, p)
	version := mainstem.Version(1 + rng.IntN(5))
	switch n := rng.IntN(24); {
	case n == 0:
		b.Delete(space, key)
	case n == 1:
		b.Add(mainstem.Write{Op: mainstem.OpPurge, Space: space, Key: key})
	case n == 2:
		b.Add(mainstem.Write{Op: mainstem.OpForget, Space: space, Key: key})
	case n == 3:
		b.Truncate(space, key, version)
	case n < 6:
		b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: space, Key: key, Version: version})
	default:
		b.Put(space, key, fmt.Appendf(nil, "%d", rng.IntN(1000)))
	}
	_, err := l.Commit(t.Context(), b)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) && !errors.Is(err, mainstem.ErrInvalid) {
		t.Fatal(err)
	}
}

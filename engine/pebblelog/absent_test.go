package pebblelog_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// TestNewKeysBesideReaders reads keys of a new space while they are written: a key is there, by
// every kind of read, for all who have the receipt of its first commit, and for all who have
// seen the key that was committed after it.
func TestNewKeysBesideReaders(t *testing.T) {
	for name, policy := range map[string]mainstem.Policy{"all": {}, "one": {History: 1}, "three": {History: 3}} {
		t.Run(name, func(t *testing.T) {
			l, err := pebblelog.OpenMemory(pebblelog.WithHotBytes(pebblelog.Options{}, 64<<10))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			const keys = 1500
			key := func(i int) []byte { return fmt.Appendf(nil, "key-%d", i) }
			seen := func(i int) bool { return newKeySeen(t, l, key(i)) }
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for i := range keys {
						for !seen(i) && !t.Failed() {
							runtime.Gosched()
						}
						if i > 0 && !seen(i-1) {
							t.Errorf("key %d was seen, and the one before is not there", i)
						}
					}
				})
			}
			for i := range keys {
				b := mainstem.NewBatch()
				b.Ensure("new", policy)
				b.IfAbsent("new", key(i))
				b.Put("new", key(i), []byte("value"))
				if _, err := l.Commit(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				if !seen(i) {
					t.Fatalf("key %d was committed, and is not there", i)
				}
			}
			wg.Wait()
		})
	}
}

// newKeySeen reports whether a key is there, by Get, which all other reads after it must confirm.
func newKeySeen(t *testing.T, l mainstem.Log, key []byte) bool {
	ctx := context.Background()
	_, err := l.Get(ctx, "new", key)
	if errors.Is(err, mainstem.ErrNotFound) {
		return false
	}
	found := 0
	for r, rerr := range l.Read(ctx, "new", key, mainstem.Versions{}) {
		if rerr == nil && r.Version == 1 {
			found++
		}
		err = errors.Join(err, rerr)
	}
	for r, rerr := range l.GetMany(ctx, "new", [][]byte{key, []byte("never")}) {
		if rerr == nil && r.Version == 1 {
			found++
		}
		err = errors.Join(err, rerr)
	}
	if err != nil || found != 2 {
		t.Errorf("%s: found by Get, and by %d of 2 other reads: %v", key, found, err)
	}
	return true
}

// TestSlotsAreReadWithoutDrain reads all versions of a key that has one.
func TestSlotsAreReadWithoutDrain(t *testing.T) {
	l, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	most := uint64(0)
	for i := range 100 {
		b := mainstem.NewBatch()
		b.Ensure("one", mainstem.Policy{History: 1})
		b.Put("one", []byte("key"), make([]byte, 100))
		if _, err := l.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		_ = versionsOf(t, l, "one", []byte("never"), mainstem.Versions{})
		if got := versionsOf(t, l, "one", []byte("key"), mainstem.Versions{Reverse: true}); len(got) != 1 || got[0].Version != mainstem.Version(i+1) {
			t.Errorf("after %d puts: %+v", i+1, got)
		}
		most = max(most, l.Stats().HotPending)
	}
	if most == 0 { // a sweep or a mark of the clock drains some, and in checked builds other groups, but not all
		t.Error("after 100 puts, each of which was read, nothing was ever pending")
	}
}

// versionsOf returns the records that a read yields, without their keys, values and headers.
func versionsOf(t *testing.T, l mainstem.Reader, space string, key []byte, sel mainstem.Versions) (out []mainstem.Record) {
	t.Helper()
	for r, err := range l.Read(t.Context(), space, key, sel) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Key, r.Value, r.Headers = nil, nil, nil
		out = append(out, r)
	}
	return out
}

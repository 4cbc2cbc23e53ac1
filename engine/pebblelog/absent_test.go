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
	"github.com/mainstemdev/mainstem/internal/invariants"
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
	if invariants.Enabled {
		t.Skip("checked builds send some groups past the hot tier")
	}
	l, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 10 {
		b := mainstem.NewBatch()
		b.Ensure("one", mainstem.Policy{History: 1})
		b.Put("one", []byte("key"), fmt.Append(nil, i))
		if _, err := l.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		pending := l.Stats().HotPending
		for _, key := range []string{"key", "never"} {
			_ = versionsOf(t, l, "one", []byte(key), mainstem.Versions{})
		}
		if got := versionsOf(t, l, "one", []byte("key"), mainstem.Versions{Reverse: true}); len(got) != 1 || got[0].Version != mainstem.Version(i+1) {
			t.Errorf("after %d puts: %+v", i+1, got)
		}
		if now := l.Stats().HotPending; now != pending || pending == 0 {
			t.Errorf("%d bytes were pending before the read, and %d are now", pending, now)
		}
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

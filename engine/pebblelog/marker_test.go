package pebblelog

import (
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest"
)

// TestOldMarkerExpires sweeps a version marker that expires although records are left behind it,
// as older programs wrote them.
func TestOldMarkerExpires(t *testing.T) {
	clock := enginetest.NewClock()
	l, err := OpenMemory(&Options{Now: clock.Now, Monotonic: clock.Monotonic})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	key := []byte("k")
	commit := func(fill func(b *mainstem.Batch)) mainstem.Receipt {
		t.Helper()
		b := mainstem.NewBatch()
		fill(b)
		r, err := l.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	commit(func(b *mainstem.Batch) {
		b.Ensure("s", mainstem.Policy{History: 3})
		b.Put("s", key, []byte("one"))
		b.Put("s", key, []byte("two"))
	})
	commit(func(b *mainstem.Batch) {
		b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: "s", Key: key, Version: 2})
	})
	err = l.removal(t.Context(), "test", func(tx *tx) error {
		ts := tx.space("s")
		tx.leaveMarker(ts, key, 2, 2, false)
		ts.dirty = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		clock.Advance(mainstem.DefaultTombstoneAge + time.Hour)
		if err := l.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := l.Space(t.Context(), "s"); err != nil || info.Records != 1 || info.Keys != 1 {
		t.Errorf("the space holds %+v, %v; want the record behind the marker", info, err)
	}
	if r := commit(func(b *mainstem.Batch) { b.Put("s", key, nil) }); r.Versions[0] != 3 {
		t.Errorf("the key continues at version %d, want 3", r.Versions[0])
	}
}

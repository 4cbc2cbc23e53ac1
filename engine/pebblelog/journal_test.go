package pebblelog

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// FuzzReplay replays frames whose effects are anything: they are applied, or Corrupt.
func FuzzReplay(f *testing.F) {
	l, err := OpenMemory(nil)
	if err != nil {
		f.Fatal(err)
	}
	defer l.Close()
	b := l.db.NewBatch()
	must(b.Set([]byte("k\x00\x00\x00\x01key"), []byte("value"), nil))
	must(b.Delete([]byte("k\x00\x00\x00\x01gone"), nil))
	must(b.DeleteRange(format.AppendHead(nil, format.TagSlot, 1), format.AppendHead(nil, format.TagSlot, 2), nil))
	f.Add(b.Repr())
	f.Add(b.Repr()[:20])
	must(b.Merge([]byte("k"), []byte("v"), nil))
	f.Add(b.Repr())
	f.Add(append(make([]byte, 12), 0))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}) // Pebble's flush panics over an empty key
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 1, 'k', 0})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, byte(pebble.InternalKeyKindLogData), 1, 'k'})
	f.Fuzz(func(t *testing.T, effects []byte) {
		l, err := OpenMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		err = l.applyFrame(&journal.Frame{First: 1, Count: 1, Effects: effects})
		if err != nil && !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%x: %v", effects, err)
		}
	})
}

// TestReplayRefusesOutOfOrder replays a frame twice, and one too early.
func TestReplayRefusesOutOfOrder(t *testing.T) {
	l, err := OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := l.db.NewBatch()
	must(b.Set([]byte("k\x00\x00\x00\x01key"), []byte("value"), nil))
	for _, try := range []struct {
		frame mainstem.Position
		ok    bool
	}{{2, false}, {1, true}, {1, false}, {3, false}, {2, true}} {
		err := l.applyFrame(&journal.Frame{First: try.frame, Count: 1, Effects: b.Repr()})
		if try.ok != (err == nil) || err != nil && !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("frame %d: %v", try.frame, err)
		}
	}
}

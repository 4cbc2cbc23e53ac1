package pebblelog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
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
		r := replayer{l: l, piece: replayPiece}
		if err = r.add(&journal.Frame{First: 1, Count: 1, Effects: effects}); err == nil {
			err = r.commit()
		}
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
	r := replayer{l: l, piece: replayPiece}
	for _, try := range []struct {
		frame mainstem.Position
		ok    bool
	}{{2, false}, {1, true}, {1, false}, {3, false}, {2, true}} {
		err := r.add(&journal.Frame{First: try.frame, Count: 1, Effects: b.Repr()})
		if try.ok != (err == nil) || err != nil && !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("frame %d: %v", try.frame, err)
		}
	}
}

// TestReplayInPieces replays random frames in pieces of many sizes: Pebble has then what it has
// if each frame is a batch of its own.
func TestReplayInPieces(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		frames := randomFrames(rng, 60)
		want := replayed(t, frames, 0)
		for _, piece := range []int{1, 100, 1000, 1 << 20} {
			got := replayed(t, frames, piece)
			if diff := diffMaps(got, want); diff != "" {
				t.Fatalf("seed %d, pieces of %d bytes: %s", seed, piece, diff)
			}
		}
	}
}

// replayed returns all that Pebble has after a replay of frames, in pieces, or with 0 one by one.
func replayed(t *testing.T, frames [][]byte, piece int) map[string]string {
	t.Helper()
	l, err := OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := replayer{l: l, piece: piece}
	for i, effects := range frames {
		if piece == 0 {
			b := l.db.NewBatch()
			must(b.SetRepr(bytes.Clone(effects)))
			must(b.Commit(pebble.NoSync))
			must(b.Close())
			continue
		}
		if err := r.add(&journal.Frame{First: mainstem.Position(i + 1), Count: 1, Effects: effects}); err != nil {
			t.Fatal(err)
		}
	}
	must(r.commit())
	all := map[string]string{}
	for tag := byte(1); tag < 0xff; tag++ {
		must(l.walk(tag, func(k, v []byte) error { all[string(k)] = string(v); return nil }))
	}
	return all
}

// randomFrames returns the effects of n frames: sets and deletes of slots, totals of more spaces
// than a piece holds back, deletes of both and of ranges, and the number of the frame.
func randomFrames(rng *rand.Rand, n int) (frames [][]byte) {
	spaces := uint32(3)
	if rng.IntN(2) == 0 {
		spaces = 2 * mostHeld
	}
	for i := range n {
		b := (&pebble.Batch{})
		for range 1 + rng.IntN(6) {
			id := 1 + rng.Uint32N(spaces)
			slot := format.AppendSlotKey(nil, id, []byte{'a' + byte(rng.IntN(4))})
			switch rng.IntN(8) {
			case 0:
				must(b.Delete(slot, nil))
			case 1:
				must(b.DeleteRange(format.AppendHead(nil, format.TagSlot, id), format.AppendHead(nil, format.TagSlot, id+1), nil))
			case 2:
				must(b.Delete(format.AppendTotalsKey(nil, id), nil))
			case 3, 4:
				must(b.Set(format.AppendTotalsKey(nil, id), fmt.Appendf(nil, "totals %d", i), nil))
			default:
				must(b.Set(slot, fmt.Appendf(nil, "value %d", i), nil))
			}
		}
		must(b.Set(frameKey, format.AppendFrameNumber(nil, uint64(i+1)), nil))
		frames = append(frames, bytes.Clone(b.Repr()))
	}
	return frames
}

func diffMaps(got, want map[string]string) string {
	for k, v := range want {
		if got[k] != v {
			return fmt.Sprintf("key %q is %q, want %q", k, got[k], v)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			return fmt.Sprintf("key %q is there", k)
		}
	}
	return ""
}

package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// plain returns a frame with a serial that check can see, and n more bytes.
func plain(serial int) journal.Frame {
	f := frame(serial)
	f.Effects = f.Effects[:min(len(f.Effects), 40)]
	return f
}

// takePlain is found.take for plain frames.
func takePlain(serials *[]int) func(journal.Frame) error {
	return func(f journal.Frame) error {
		serial := len(*serials) + 1
		want := plain(serial)
		if string(f.Effects) != string(want.Effects) || f.Count != want.Count || f.Time != want.Time || f.Clock != want.Clock {
			return fmt.Errorf("frame %d came back changed", serial)
		}
		*serials = append(*serials, serial)
		return nil
	}
}

// harmed is a journal to be harmed: segments of few frames, of which the first synced
// bytes of each are known to have been on stable storage.
type harmed struct {
	image  crashtest.Image
	paths  []string
	synced []int64 // by segment: the bytes that are proven
	end    []int64 // by segment: the bytes in use
	frames int     // in all
	sure   int     // of them, those that are proven
}

// build makes a journal of three segments. If clean, it is closed.
func build(t *testing.T, clean bool) harmed {
	t.Helper()
	fs := vfs.NewMem()
	o := small()
	o.MaxSegment = o.FirstSegment
	j, err := journal.Open(fs, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	h := harmed{}
	for seg := range 3 {
		if seg > 0 {
			if err := j.Rotate(); err != nil {
				t.Fatal(err)
			}
		}
		end, synced := int64(format.JournalHeader), int64(format.JournalHeader)
		for i := range 6 {
			h.frames++
			f := plain(h.frames)
			d := mainstem.Fsync
			if i > 3 {
				d = mainstem.OS
			}
			if _, err := j.Commit(d, f); err != nil {
				t.Fatal(err)
			}
			if end += format.FrameSize(int64(len(f.Effects))); i == 3 {
				synced, h.sure = end, h.frames
			}
		}
		if clean || seg < 2 {
			synced, h.sure = end, h.frames
		}
		h.end, h.synced = append(h.end, end), append(h.synced, synced)
	}
	if clean {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Cleanup(func() { j.Close() })
	}
	if h.image, err = crashtest.ReadImage(fs, dir); err != nil {
		t.Fatal(err)
	}
	for _, p := range h.image.Paths() {
		if strings.HasSuffix(p, ".journal") {
			h.paths = append(h.paths, p)
		}
	}
	return h
}

// TestFlippedBits flips a bit of every byte in use, and of some that are not. In what is
// known to have been on stable storage that is Corrupt; in what may not have been it
// cuts an end off; elsewhere it changes nothing.
func TestFlippedBits(t *testing.T) {
	for _, clean := range []bool{true, false} {
		h := build(t, clean)
		fs, err := h.image.FS()
		if err != nil {
			t.Fatal(err)
		}
		for i, path := range h.paths {
			for at := range int64(len(h.image[path])) {
				if at > h.end[i]+200 && at%997 != 0 || testing.Short() && at%7 != 0 {
					continue
				}
				flip := func() { flipBit(t, fs, path, at) }
				flip()
				serials, err := openHarmed(fs)
				flip()
				switch {
				case at < h.synced[i]:
					var e *mainstem.Error
					if !errors.As(err, &e) || e.Kind != mainstem.KindCorrupt || !strings.Contains(err.Error(), ".journal, byte") || e.Hint == "" {
						t.Fatalf("clean %t, byte %d of %s: %v, want Corrupt with a file, a byte and a hint", clean, at, path, err)
					}
				case err != nil:
					t.Fatalf("clean %t, byte %d of %s: %v", clean, at, path, err)
				case serials < h.sure || at >= h.end[i] && serials != h.frames:
					t.Fatalf("clean %t, byte %d of %s: %d frames of %d", clean, at, path, serials, h.frames)
				}
			}
		}
	}
}

// flipBit flips a bit of the byte at at. Twice, and nothing has happened.
func flipBit(t *testing.T, fs vfs.FS, path string, at int64) {
	t.Helper()
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var p [1]byte
	if _, err := f.ReadAt(p[:], at); err != nil {
		t.Fatal(err)
	}
	p[0] ^= 1 << (at % 8)
	if _, err := f.WriteAt(p[:], at); err != nil {
		t.Fatal(err)
	}
}

// TestMisplacedFrame copies a whole frame over the one before: its checksum is right, but
// it does not continue the frame before it.
func TestMisplacedFrame(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs, small())
	for i := range 5 {
		commit(t, j, mainstem.Fsync, fmt.Sprint("frame ", i))
	}
	path := dir + "/0000000000000001.journal"
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, format.FrameSize(7))
	if _, err := f.ReadAt(p, format.JournalHeader+2*int64(len(p))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(p, format.JournalHeader+int64(len(p))); err != nil {
		t.Fatal(err)
	}
	var got []string
	_, err = journal.Open(fs, dir, journal.Options{ReadOnly: true, Replay: func(f journal.Frame) error {
		got = append(got, string(f.Effects))
		return nil
	}})
	if mainstem.KindOf(err) != mainstem.KindCorrupt || len(got) != 1 {
		t.Errorf("%q were replayed, %v", got, err)
	}
}

// TestLostPieces truncates, zeroes and removes files: never is a frame invented, moved
// or silently lost that is known to have been on stable storage, except with the newest
// file.
func TestLostPieces(t *testing.T) {
	for _, clean := range []bool{true, false} {
		h := build(t, clean)
		for i, path := range h.paths {
			for _, d := range crashtest.Damages(path, len(h.image[path]), 1) {
				if d.Flips {
					continue
				}
				n, err := h.open(d)
				if err == nil && n < h.sure && !(d.What == "removed" && i == len(h.paths)-1) {
					t.Errorf("clean %t, %s: %d frames, and no error", clean, d, n)
				}
				if err != nil && mainstem.KindOf(err) != mainstem.KindCorrupt {
					t.Errorf("clean %t, %s: %v", clean, d, err)
				}
			}
		}
	}
}

// open opens the journal with damage and returns how many frames it holds.
func (h *harmed) open(d crashtest.Damage) (int, error) {
	fs, err := h.image.Apply(d).FS()
	if err != nil {
		return 0, err
	}
	return openHarmed(fs)
}

// openHarmed opens the journal on fs to be read and returns how many frames it holds.
func openHarmed(fs vfs.FS) (int, error) {
	var serials []int
	_, err := journal.Open(fs, dir, journal.Options{ReadOnly: true, From: 1, Replay: takePlain(&serials)})
	return len(serials), err
}

// TestStaleFrames fills recycled files: frames of their former lives never come back,
// wherever the journal is cut.
func TestStaleFrames(t *testing.T) {
	fs := crashtest.NewTornFS()
	if err := makeParent(fs); err != nil {
		t.Fatal(err)
	}
	o := small()
	o.MaxSegment = o.FirstSegment
	j, err := journal.Open(fs, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	l := ledger{}
	for range 400 {
		if err := l.append(j, 1, true); err != nil {
			t.Fatal(err)
		}
		l.absorb(len(l.attempts), j.Durable())
		if err := j.TruncateFront(j.Durable()); err != nil {
			t.Fatal(err)
		}
		again, f, err := reopen(fs.Cut(0, rand.New(rand.NewPCG(1, 1))), 0, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.check(f, written); err != nil {
			t.Fatal(err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := j.Stats()
	if s.Rotations < 5 || s.Zeroed*3 > s.Rotations {
		t.Errorf("%d segments, of which %d were not recycled: this tests nothing", s.Rotations, s.Zeroed)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

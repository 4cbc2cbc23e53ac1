package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// TestTruncateAndPins keeps what is pinned, and what is being read.
func TestTruncateAndPins(t *testing.T) {
	j := open(t, vfs.NewMem(), small())
	effects := string(make([]byte, 3000))
	for range 50 {
		commit(t, j, mainstem.OS, effects)
	}
	release := j.Pin(3)
	for range 2 {
		if err := j.TruncateFront(50); err != nil {
			t.Fatal(err)
		}
		if err := j.Sync(50); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, j, 3); len(got) != 48 {
		t.Errorf("%d frames are left, want 48", len(got))
	}
	release()
	release()
	for f, err := range j.Read(j.Stats().First + 1) {
		if err != nil {
			t.Fatal(err)
		}
		if err := j.TruncateFront(50); err != nil {
			t.Fatal(err)
		}
		if len(f.Effects) != len(effects) {
			t.Fatal("a frame changed under its reader")
		}
	}
	if err := j.TruncateFront(50); err != nil {
		t.Fatal(err)
	}
	s := j.Stats()
	if s.Segments != 1 || s.First == 0 || s.SpareBytes == 0 {
		t.Errorf("after truncation: %+v", s)
	}
	for _, err := range j.Read(1) {
		if mainstem.KindOf(err) != mainstem.KindNotFound {
			t.Errorf("read of what was truncated: %v", err)
		}
	}
}

// TestReadAt finds single frames again, in every segment and after a restart.
func TestReadAt(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs, small())
	var frames []journal.Frame
	for i := range 60 {
		one := []journal.Frame{{Count: 1, Effects: bytes.Repeat([]byte{byte(i)}, i*100)}, {Count: 1}}
		if _, err := j.Append(one); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, one...)
	}
	again := func(j *journal.Journal) {
		t.Helper()
		for _, want := range frames {
			got, err := j.ReadAt(want.Place)
			if err != nil || got.First != want.First || got.Place != want.Place || !bytes.Equal(got.Effects, want.Effects) {
				t.Fatalf("frame %d at %+v: %v", want.First, want.Place, err)
			}
		}
	}
	again(j)
	for _, at := range []int64{0, 4, 513, 1 << 40, -1} {
		if _, err := j.ReadAt(journal.Place{Segment: 1, Offset: at}); mainstem.KindOf(err) != mainstem.KindCorrupt {
			t.Errorf("at %d: %v", at, err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	i := 0
	j = open(t, fs, journal.Options{Replay: func(f journal.Frame) error {
		if f.Place != frames[i].Place {
			t.Errorf("frame %d is at %+v, was at %+v", f.First, f.Place, frames[i].Place)
		}
		i++
		return nil
	}})
	again(j)
	commit(t, j, mainstem.Fsync, "so that the others may go")
	if err := j.TruncateFront(j.Durable()); err != nil {
		t.Fatal(err)
	}
	if _, err := j.ReadAt(frames[0].Place); mainstem.KindOf(err) != mainstem.KindNotFound {
		t.Errorf("a truncated frame: %v", err)
	}
}

// TestErase leaves no byte of what is erased in any file.
func TestErase(t *testing.T) {
	const secret = "a secret that must go"
	fs := vfs.NewMem()
	o := small()
	o.MaxSegment = o.FirstSegment
	j := open(t, fs, o)
	effects := strings.Repeat(secret, 100)
	for range 200 {
		p := commit(t, j, mainstem.Fsync, effects)
		if p%20 == 0 {
			if err := j.TruncateFront(p - 10); err != nil {
				t.Fatal(err)
			}
		}
	}
	holds := func() (n int) {
		im, err := crashtest.ReadImage(fs, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range im {
			if bytes.Contains(p, []byte(secret)) {
				n++
			}
		}
		return n
	}
	if err := j.Erase(j.Durable() - 1); mainstem.KindOf(err) != mainstem.KindUnavailable || holds() == 0 {
		t.Errorf("erased what is still needed: %v", err)
	}
	// The next segment would be a recycled file, if Erase did not see to it.
	if err := errors.Join(j.Rotate(), j.TruncateFront(j.Durable())); err != nil || holds() == 0 {
		t.Fatalf("no recycled file holds it: this tests nothing; %v", err)
	}
	if err := j.Erase(j.Durable()); err != nil || holds() != 0 {
		t.Errorf("erase: %v, %d files hold it", err, holds())
	}
	commit(t, j, mainstem.Fsync, "and on")
	if got := read(t, j, j.Durable()); !slices.Equal(got, []string{"and on"}) {
		t.Error(got)
	}
}

// TestEraseAgain erases after operations on the directory have failed. When Erase succeeds at last,
// no file has the bytes, and a power cut brings none back.
func TestEraseAgain(t *testing.T) {
	const secret = "a secret that must go"
	effects := strings.Repeat(secret, 100)
	faults := map[string]func(op errorfs.Op) bool{
		"remove": func(op errorfs.Op) bool { return op.Kind == errorfs.OpRemove },
		"rename": func(op errorfs.Op) bool { return op.Kind == errorfs.OpRename },
		"sync":   func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync && op.Path == dir },
		"header": func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpRemove },
	}
	for name, only := range faults {
		for _, erase := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, erase %t", name, erase), func(t *testing.T) {
				mem := vfs.NewCrashableMem()
				if err := makeParent(mem); err != nil {
					t.Fatal(err)
				}
				var failing atomic.Bool
				fault := &crashtest.Fault{At: 1, Permanent: true, Err: syscall.EIO, Only: func(op errorfs.Op) bool { return failing.Load() && only(op) }}
				o := small()
				o.MaxSegment = o.FirstSegment
				j := open(t, fault.Wrap(mem), o)
				for range 100 {
					commit(t, j, mainstem.Fsync, effects)
				}
				if err := j.TruncateFront(j.Durable() - 10); err != nil { // some files are spares
					t.Fatal(err)
				}
				failing.Store(true)
				calls := []error{j.Rotate(), j.TruncateFront(j.Durable())}
				if erase {
					calls = append(calls, j.Erase(j.Durable()))
				}
				if errors.Join(calls...) == nil {
					t.Error("nothing has failed: this tests nothing")
				}
				failing.Store(false)
				if err := j.Err(); err != nil {
					t.Fatal(err)
				}
				if err := j.Erase(j.Durable()); err != nil {
					t.Fatal(err)
				}
				for when, fs := range map[string]vfs.FS{"now": mem, "after a power cut": mem.CrashClone(vfs.CrashCloneCfg{})} {
					im, err := crashtest.ReadImage(fs, dir)
					if err != nil {
						t.Fatal(err)
					}
					for path, p := range im {
						if bytes.Contains(p, []byte(secret)) {
							t.Errorf("%s, %s has it", when, path)
						}
					}
				}
				commit(t, j, mainstem.Fsync, "and on")
			})
		}
	}
}

// TestShrink writes through growing segments: what is left then is a small one, and what is
// written next is found behind what is still needed.
func TestShrink(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs, small())
	effects := string(make([]byte, 3000))
	for range 200 {
		commit(t, j, mainstem.OS, effects)
	}
	grown := j.Stats()
	if err := j.Shrink(100); err != nil {
		t.Fatal(err)
	}
	if got := read(t, j, 101); len(got) != 100 {
		t.Fatalf("%d frames are left, want 100", len(got))
	}
	if err := j.Sync(200); err != nil {
		t.Fatal(err)
	}
	if err := j.Shrink(200); err != nil {
		t.Fatal(err)
	}
	s := j.Stats()
	if smallest := small().FirstSegment; s.Segments != 1 || s.SegmentBytes != smallest || s.SpareBytes > 0 || grown.SegmentBytes < 4*smallest {
		t.Errorf("it shrank from %+v to %+v", grown, s)
	}
	commit(t, j, mainstem.Fsync, effects)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	o := small()
	o.From = 201
	j = open(t, fs, o)
	if got := read(t, j, 201); len(got) != 1 {
		t.Errorf("%d frames behind what was removed, want 1", len(got))
	}
}

// TestShrinkBelowFirst: what a journal keeps that was closed has no room for frames, so the
// size of its first segment does not matter. It goes on with one of the usual size.
func TestShrinkBelowFirst(t *testing.T) {
	fs, o := vfs.NewMem(), small()
	o.FirstSegment, o.MaxSegment = 256<<10, 1<<20
	for i := range mainstem.Position(3) {
		o.From = i + 1
		j := open(t, fs, o)
		if i > 0 {
			if s := j.Stats(); s.SegmentBytes+s.SpareBytes != small().FirstSegment {
				t.Errorf("process %d finds %d bytes of segments and %d of spares", i, s.SegmentBytes, s.SpareBytes)
			}
		}
		commit(t, j, mainstem.OS, "effects")
		if s := j.Stats(); s.SegmentBytes < o.FirstSegment {
			t.Errorf("process %d writes to segments of %d bytes", i, s.SegmentBytes)
		}
		if err := j.Sync(i + 1); err != nil {
			t.Fatal(err)
		}
		if err := j.Shrink(i + 1); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShrinkThenAppend: who goes on writing after all gets a segment of the usual size, too.
func TestShrinkThenAppend(t *testing.T) {
	o := small()
	o.FirstSegment, o.MaxSegment = 256<<10, 1<<20
	j := open(t, vfs.NewMem(), o)
	commit(t, j, mainstem.Fsync, "effects")
	if err := j.Shrink(1); err != nil {
		t.Fatal(err)
	}
	effects := string(make([]byte, 30_000))
	commit(t, j, mainstem.OS, effects)
	if s := j.Stats(); s.Segments != 2 || s.SegmentBytes != o.FirstSegment+small().FirstSegment {
		t.Errorf("after a frame that does not fit into what was left: %+v", s)
	}
	if got := read(t, j, 2); len(got) != 1 || got[0] != effects {
		t.Errorf("%d frames", len(got))
	}
}

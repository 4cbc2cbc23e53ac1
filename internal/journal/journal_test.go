package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, fs vfs.FS, o journal.Options) *journal.Journal {
	t.Helper()
	j, err := journal.Open(fs, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func commit(t *testing.T, j *journal.Journal, d mainstem.Durability, effects string) mainstem.Position {
	t.Helper()
	p, err := j.Commit(d, journal.Frame{Count: 1, Effects: []byte(effects)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// read returns the effects of the frames from position from on.
func read(t *testing.T, j *journal.Journal, from mainstem.Position) (out []string) {
	t.Helper()
	for f, err := range j.Read(from) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(f.Effects))
	}
	return out
}

// TestFilesOfADisk runs through the life of a journal on the file system of the machine.
func TestFilesOfADisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "journal")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	o := journal.Options{Create: true}
	var want []string
	for life := range 3 {
		var got []string
		o.Replay = func(f journal.Frame) error { got = append(got, string(f.Effects)); return nil }
		j, err := journal.Open(vfs.Default, path, o)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("life %d: %d frames were replayed, want %d", life, len(got), len(want))
		}
		for i := range 40 {
			want = append(want, strings.Repeat(fmt.Sprint(i), 100<<10))
			commit(t, j, []mainstem.Durability{mainstem.OS, mainstem.Fsync, mainstem.Interval(time.Hour)}[i%3], want[len(want)-1])
		}
		if s := j.Stats(); s.Rotations < 2 {
			t.Errorf("life %d: %+v", life, s)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
}

func TestEmptyJournalIsSmall(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/data", 0o700); err != nil {
		t.Fatal(err)
	}
	j := open(t, fs, journal.Options{Create: true})
	commit(t, j, mainstem.Fsync, "one")
	if s := j.Stats(); s.SegmentBytes+s.SpareBytes > 1<<20 {
		t.Errorf("an almost empty journal takes %d bytes", s.SegmentBytes+s.SpareBytes)
	}
}

// TestSizes watches segments grow, and large frames get segments of their own size.
func TestSizes(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs, small())
	effects := make([]byte, 8<<10)
	for range 60 {
		commit(t, j, mainstem.OS, string(effects))
	}
	commit(t, j, mainstem.OS, string(make([]byte, 300<<10)))
	commit(t, j, mainstem.OS, "after")
	im, err := crashtest.ReadImage(fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, p := range im.Paths() {
		if strings.HasSuffix(p, ".journal") {
			sizes = append(sizes, len(im[p])>>10)
		}
	}
	if n := len(sizes); n < 4 || !slices.Equal(sizes[:3], []int{16, 64, 64}) || sizes[n-1] != 304 && sizes[n-2] != 304 {
		t.Errorf("segments of %d KiB", sizes)
	}
	if got := read(t, j, 1); len(got) != 62 || got[61] != "after" {
		t.Errorf("%d frames", len(got))
	}
}

func TestPositions(t *testing.T) {
	j := open(t, vfs.NewMem(), small())
	frames := []journal.Frame{{Count: 3, Effects: []byte("a")}, {Count: 1}, {First: 100, Count: 2}}
	if last, err := j.Append(frames); err != nil || last != 101 || frames[1].First != 4 {
		t.Fatal(last, err, frames)
	}
	for _, bad := range []journal.Frame{{First: 101, Count: 1}, {}, {First: 1 << 63, Count: 0}, {First: ^mainstem.Position(0), Count: 2}} {
		if _, err := j.Append([]journal.Frame{bad}); mainstem.KindOf(err) != mainstem.KindInvalid {
			t.Errorf("frame %+v: %v", bad, err)
		}
	}
	if _, err := j.Append(nil); mainstem.KindOf(err) != mainstem.KindInvalid {
		t.Errorf("no frame: %v", err)
	}
	if err := j.Sync(102); mainstem.KindOf(err) != mainstem.KindInvalid {
		t.Errorf("sync of what was not written: %v", err)
	}
	if j.Written() != 101 || j.Durable() != 0 {
		t.Errorf("written %d, durable %d", j.Written(), j.Durable())
	}
	for from, want := range map[mainstem.Position]int{0: 3, 3: 3, 4: 2, 5: 1, 101: 1, 102: 0} {
		if got := read(t, j, from); len(got) != want {
			t.Errorf("from %d: %d frames, want %d", from, len(got), want)
		}
	}
}

// TestOptions refuses what makes no sense, and names it.
func TestOptions(t *testing.T) {
	for _, o := range []journal.Options{{FirstSegment: 1}, {FirstSegment: 1 << 20, MaxSegment: 1 << 19}, {MaxSegment: 1 << 40}} {
		if _, err := journal.Open(vfs.NewMem(), dir, o); mainstem.KindOf(err) != mainstem.KindInvalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestMissing opens directories from which files are gone.
func TestMissing(t *testing.T) {
	if _, err := journal.Open(vfs.NewMem(), dir, journal.Options{}); mainstem.KindOf(err) != mainstem.KindCorrupt {
		t.Errorf("no directory: %v", err)
	}
	h := build(t, true)
	for i, path := range h.paths {
		im := maps.Clone(h.image)
		delete(im, path)
		fs, err := im.FS()
		if err != nil {
			t.Fatal(err)
		}
		j, err := journal.Open(fs, dir, journal.Options{From: 1})
		if err == nil {
			defer j.Close()
		}
		if last := i == len(h.paths)-1; (err == nil) != last || !last && mainstem.KindOf(err) != mainstem.KindCorrupt {
			t.Errorf("without %s: %v", path, err)
		}
		if after, _ := crashtest.ReadImage(fs, dir); i < len(h.paths)-1 && len(after) != len(im) {
			t.Errorf("without %s: a failed open changed the directory", path)
		}
	}
}

// TestGap opens a journal without a segment in the middle: the segments before it stay until the
// caller says that it has their frames.
func TestGap(t *testing.T) {
	h := build(t, true)
	delete(h.image, h.paths[1])
	fs, err := h.image.FS()
	if err != nil {
		t.Fatal(err)
	}
	has := func() bool {
		_, err := fs.Stat(h.paths[0])
		return err == nil
	}
	j := open(t, fs, small())
	first := j.Stats().First
	if err := j.TruncateFront(first - 1); err != nil || !has() {
		t.Errorf("a segment that may be needed is gone, %v", err)
	}
	if err := j.TruncateFront(first); err != nil || has() {
		t.Errorf("a segment that is not needed is still there: %t, %v", has(), err)
	}
	if got := read(t, j, first+1); len(got) != h.frames/3 {
		t.Errorf("%d frames, want those of the last segment of three", len(got))
	}
}

// TestFrom compares what the caller has with what the journal has.
func TestFrom(t *testing.T) {
	fs := vfs.NewMem()
	j := open(t, fs, journal.Options{Create: true, From: 1001})
	if j.Written() != 1000 || j.Durable() != 1000 || commit(t, j, mainstem.OS, "x") != 1001 {
		t.Errorf("a journal that begins behind 1000: %+v", j.Stats())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[mainstem.Position]mainstem.Kind{0: 0, 1000: mainstem.KindCorrupt, 1001: 0, 1002: 0, 1003: mainstem.KindCorrupt} {
		j, err := journal.Open(fs, dir, journal.Options{From: from})
		if err == nil {
			err = j.Close()
		}
		if (err == nil) != (want == 0) || err != nil && mainstem.KindOf(err) != want {
			t.Errorf("from %d: %v", from, err)
		}
	}
}

// TestReadOnly changes nothing.
func TestReadOnly(t *testing.T) {
	h := build(t, false)
	h.image[dir+"/zeroing.tmp"] = []byte("left over")
	fs, err := h.image.FS()
	if err != nil {
		t.Fatal(err)
	}
	j := open(t, fs, journal.Options{ReadOnly: true})
	if got := read(t, j, 1); len(got) != h.frames {
		t.Errorf("%d frames, want %d", len(got), h.frames)
	}
	if _, err := j.Commit(mainstem.OS, plain(1)); mainstem.KindOf(err) != mainstem.KindUnsupported {
		t.Errorf("append: %v", err)
	}
	for _, err := range []error{j.TruncateFront(99), j.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
	after, err := crashtest.ReadImage(fs, dir)
	if err != nil || !maps.EqualFunc(after, h.image, bytes.Equal) {
		t.Errorf("the directory was changed, %v", err)
	}
}

// TestInterval syncs in time, once for all, and not without need.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, vfs.NewMem(), small())
		for range 10 {
			commit(t, j, mainstem.Interval(100*time.Millisecond), "x")
		}
		time.Sleep(99 * time.Millisecond)
		synctest.Wait()
		if j.Durable() != 0 {
			t.Errorf("durable up to %d too early", j.Durable())
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if s := j.Stats(); s.Durable != 10 || s.Syncs != 1 {
			t.Errorf("after the interval: %+v", s)
		}
	})
}

// TestClosed refuses everything, and may be closed twice.
func TestClosed(t *testing.T) {
	j := open(t, vfs.NewMem(), small())
	commit(t, j, mainstem.OS, "x")
	for range 2 {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := j.Commit(mainstem.OS, plain(1))
	var readErr error
	for _, readErr = range j.Read(1) {
	}
	for _, err := range []error{err, j.Rotate(), j.Erase(1), j.TruncateFront(1), readErr} {
		if mainstem.KindOf(err) != mainstem.KindClosed {
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestReplayError ends Open.
func TestReplayError(t *testing.T) {
	h := build(t, true)
	fs, err := h.image.FS()
	if err != nil {
		t.Fatal(err)
	}
	want := errors.New("enough")
	if _, err := journal.Open(fs, dir, journal.Options{Replay: func(journal.Frame) error { return want }}); err != want {
		t.Error(err)
	}
}

// TestMeasureSyncs cleans up, whatever it finds.
func TestMeasureSyncs(t *testing.T) {
	path := t.TempDir()
	times, err := journal.MeasureSyncs(vfs.Default, path)
	if err != nil || times.Overwriting <= 0 || times.Growing <= 0 {
		t.Errorf("%+v, %v", times, err)
	}
	t.Logf("%+v, recycling pays: %t", times, times.RecyclingPays())
	if names, err := os.ReadDir(path); err != nil || len(names) > 0 {
		t.Errorf("it left %v, %v", names, err)
	}
	if (journal.SyncTimes{Overwriting: 95, Growing: 100}).RecyclingPays() || !(journal.SyncTimes{Overwriting: 60, Growing: 100}).RecyclingPays() {
		t.Error("a small gain counts, or a large one does not")
	}
}

package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// TestFault makes every file operation fail, once or from then on. What was acknowledged
// is found afterwards, what was refused is not, and after a failed write or sync nothing
// is acknowledged any more.
func TestFault(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		for _, always := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/always=%t", cause, always), func(t *testing.T) {
				t.Parallel()
				n, step := int64(1), int64(1)
				if testing.Short() {
					step = 5
				}
				for ; faultRun(t, &failing{at: n, always: always, cause: cause}) && !t.Failed(); n += step {
				}
				t.Logf("%d operations", n-1)
			})
		}
	}
}

// failing makes the operation numbered at fail, and with always all later ones.
type failing struct {
	at     int64
	always bool
	cause  error
	n      atomic.Int64
}

// MaybeError implements errorfs.Injector.
func (f *failing) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileClose || op.Kind == errorfs.OpGetDiskUsage {
		return nil // nothing is lost by these
	}
	if n := f.n.Add(1); n == f.at || f.always && n > f.at {
		return &os.PathError{Op: "operation", Path: op.Path, Err: f.cause}
	}
	return nil
}

// String implements errorfs.Injector.
func (f *failing) String() string {
	return fmt.Sprintf("operation %d failing with %q, all later ones: %t", f.at, f.cause, f.always)
}

// faultRun runs calls on a journal with the fault and reports whether it happened.
func faultRun(t *testing.T, fault *failing) bool {
	fs := crashtest.NewTornFS()
	if err := makeParent(fs); err != nil {
		t.Fatal(err)
	}
	l := &ledger{}
	created, err := faultCalls(errorfs.Wrap(fs, fault), l)
	if err != nil {
		t.Errorf("%v: %v", fault, err)
	}
	rng := rand.New(rand.NewPCG(uint64(fault.at), 4))
	for percent, least := range map[int]outcome{0: durable, 100: written} {
		o := small()
		o.Create = !created
		j, f, err := reopen(fs.Cut(percent, rng), l.position+1, o)
		if err == nil {
			err = errors.Join(l.check(f, least), j.Close())
		}
		if err != nil {
			t.Errorf("%v, then a power cut (%d%% kept): %v", fault, percent, err)
		}
	}
	return fault.n.Load() >= fault.at
}

// faultCalls calls a journal and checks the outcomes that it reports. An error is one of
// the test.
func faultCalls(fs vfs.FS, l *ledger) (created bool, err error) {
	for range 2 {
		o := small()
		o.Create = !created
		j, f, err := reopen(fs, l.position+1, o)
		if err != nil {
			continue
		}
		created = true
		if err := l.check(f, durable); err != nil {
			return true, err
		}
		for i := range 18 {
			if err := faultAppend(j, l, i); err != nil {
				return true, err
			}
			if i == 15 && j.Err() == nil && l.attempts[len(l.attempts)-1] == durable {
				l.absorb(len(l.attempts), j.Durable())
				_ = j.TruncateFront(j.Durable())
				_ = j.Shrink(j.Durable())
			}
			if i == 16 {
				_ = j.Rotate()
			}
		}
		if j.Close() == nil {
			l.synced(len(l.attempts))
		}
	}
	return created, nil
}

// faultAppend appends one frame, and checks what the journal says about it.
func faultAppend(j *journal.Journal, l *ledger, i int) error {
	stopped, sure := j.Err(), j.Durable()
	err := l.append(j, 1, i%5 == 0)
	var e *mainstem.Error
	switch {
	case err == nil && stopped != nil:
		return fmt.Errorf("a frame was acknowledged after %w", stopped)
	case err == nil:
		return nil
	case !errors.As(err, &e) || e.Kind != mainstem.KindUnavailable || e.Outcome == mainstem.NoOutcome || e.Hint == "":
		return fmt.Errorf("append: %#v", err)
	case e.Outcome == mainstem.Unknown && (j.Err() == nil || stopped != nil):
		return fmt.Errorf("outcome unknown, but the journal says %v, before %v", j.Err(), stopped)
	}
	if j.Err() != nil && j.Durable() < j.Written() {
		if err := j.Sync(j.Written()); !errors.As(err, &e) || e.Outcome != mainstem.Unknown {
			return fmt.Errorf("sync after a failure: %v", err)
		}
	}
	if j.Durable() < sure {
		return fmt.Errorf("position %d was durable, now %d", sure, j.Durable())
	}
	return nil
}

// hookFS calls hooks before writes and syncs of files that were opened for writing.
type hookFS struct {
	vfs.FS
	write func(p []byte) (int, error) // how many bytes are written
	sync  func() error
}

type hookFile struct {
	vfs.File
	fs *hookFS
}

func (h *hookFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := h.FS.OpenReadWrite(name, c, o...)
	if err != nil || !strings.HasSuffix(name, ".journal") {
		return f, err
	}
	return &hookFile{f, h}, nil
}

func (f *hookFile) WriteAt(p []byte, off int64) (int, error) {
	if f.fs.write == nil {
		return f.File.WriteAt(p, off)
	}
	n, err := f.fs.write(p)
	if _, werr := f.File.WriteAt(p[:n], off); werr != nil {
		return 0, werr
	}
	return n, err
}

func (f *hookFile) SyncData() error {
	if f.fs.sync != nil {
		if err := f.fs.sync(); err != nil {
			return err
		}
	}
	return f.File.SyncData()
}

// TestShortWrites ends a write early, with and without an error: the frame is unknown,
// what came before stays, and the next Open finds either.
func TestShortWrites(t *testing.T) {
	for _, cause := range []error{nil, syscall.ENOSPC} {
		for n := 0; n < 600; n += 7 {
			fs := &hookFS{FS: vfs.NewMem()}
			l := &ledger{}
			j, err := journal.Open(fs, dir, small())
			if err != nil {
				t.Fatal(err)
			}
			if err := l.append(j, 1, true); err != nil {
				t.Fatal(err)
			}
			fs.write = func(p []byte) (int, error) { return min(n, len(p)-1), cause }
			if err := l.append(j, 2, false); !errors.Is(err, mainstem.ErrUnknownOutcome) {
				t.Fatalf("%d bytes: %v", n, err)
			}
			fs.write = nil
			if err := l.append(j, 1, false); mainstem.KindOf(err) != mainstem.KindUnavailable || j.Err() == nil {
				t.Fatalf("after %d bytes: %v", n, err)
			}
			_ = j.Close()
			j, f, err := reopen(fs, 1, small())
			if err == nil {
				err = errors.Join(l.check(f, durable), j.Close())
			}
			if err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
	}
}

// TestFailedSyncIsNotRepeated lets one sync fail. The next would succeed, and lie: the
// operating system has dropped what it could not write.
func TestFailedSyncIsNotRepeated(t *testing.T) {
	fs := &hookFS{FS: vfs.NewMem()}
	j, err := journal.Open(fs, dir, small())
	if err != nil {
		t.Fatal(err)
	}
	last, err := j.Append([]journal.Frame{frame(1)})
	if err != nil {
		t.Fatal(err)
	}
	syncs := 0
	fs.sync = func() error {
		if syncs++; syncs == 1 {
			return syscall.EIO
		}
		return nil
	}
	for range 2 {
		if err := j.Sync(last); !errors.Is(err, mainstem.ErrUnknownOutcome) || !errors.Is(err, syscall.EIO) {
			t.Errorf("sync: %v", err)
		}
	}
	if _, err := j.Commit(mainstem.Fsync, frame(2)); mainstem.KindOf(err) != mainstem.KindUnavailable || errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Errorf("commit afterwards: %v", err)
	}
	if err := j.Rotate(); err == nil {
		t.Error("a segment was begun")
	}
	if err := j.TruncateFront(last); err == nil {
		t.Error("the front was truncated")
	}
	n := 0
	for _, err := range j.Read(1) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if err := j.Close(); err == nil || syncs != 1 || n != 1 || j.Durable() != 0 {
		t.Errorf("close: %v; %d syncs, %d frames read, durable up to %d", err, syncs, n, j.Durable())
	}
}

// TestFullDisk fills a disk. Frames for which there is no segment are refused and the
// journal goes on by itself when there is room, or when frames are no longer needed.
func TestFullDisk(t *testing.T) {
	fs := crashtest.NewTornFS()
	if err := makeParent(fs); err != nil {
		t.Fatal(err)
	}
	fs.SetCapacity(200 << 10)
	j, err := journal.Open(fs, dir, small())
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{}
	fill := func() {
		t.Helper()
		for {
			err := l.append(j, 1, true)
			if err == nil {
				continue
			}
			var e *mainstem.Error
			if !errors.As(err, &e) || e.Kind != mainstem.KindUnavailable || e.Outcome != mainstem.NotWritten || !errors.Is(err, syscall.ENOSPC) || j.Err() != nil {
				t.Fatalf("on a full disk: %v", err)
			}
			return
		}
	}
	fill()
	held := 0
	for _, err := range j.Read(1) {
		if held++; err != nil {
			t.Fatal(err)
		}
	}
	if s := j.Stats(); s.SegmentBytes < 150<<10 {
		t.Errorf("the disk was called full with %d bytes of segments", s.SegmentBytes)
	}
	l.absorb(len(l.attempts), j.Durable())
	if err := j.TruncateFront(j.Durable()); err != nil {
		t.Fatal(err)
	}
	if err := l.append(j, 1, true); err != nil {
		t.Errorf("after a truncation: %v", err)
	}
	fill()
	fs.SetCapacity(0)
	if err := l.append(j, 1, true); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, f, err := reopen(fs, l.position+1, small())
	if err == nil {
		err = errors.Join(l.check(f, durable), j.Close())
	}
	if err != nil || held == 0 {
		t.Error(err, held)
	}
}

// TestFailureBeforeRotation lets a sync fail while another goroutine waits for it in order
// to begin a segment: it must not sync again, which would succeed, nor go on.
func TestFailureBeforeRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &hookFS{FS: vfs.NewMem()}
		j, err := journal.Open(fs, dir, small())
		if err != nil {
			t.Fatal(err)
		}
		last, err := j.Append([]journal.Frame{frame(1)})
		if err != nil {
			t.Fatal(err)
		}
		syncs, release := 0, make(chan struct{})
		fs.sync = func() error {
			syncs++
			<-release
			return syscall.EIO
		}
		synced, rotated := make(chan error, 1), make(chan error, 1)
		go func() { synced <- j.Sync(last) }()
		synctest.Wait()
		go func() { rotated <- j.Rotate() }()
		synctest.Wait()
		close(release)
		if err := <-synced; !errors.Is(err, mainstem.ErrUnknownOutcome) {
			t.Errorf("sync: %v", err)
		}
		if err := <-rotated; mainstem.KindOf(err) != mainstem.KindUnavailable || errors.Is(err, mainstem.ErrUnknownOutcome) || syncs != 1 {
			t.Errorf("rotate: %v, after %d syncs", err, syncs)
		}
		if err := j.Close(); err == nil {
			t.Error("the journal was closed without an error")
		}
	})
}

// silentFS does not say how much space is free.
type silentFS struct{ vfs.FS }

func (silentFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{}, vfs.ErrUnsupported
}

// TestSmallerSegments makes a small segment where there is no space for one as large as
// planned, on a file system that does not say so before.
func TestSmallerSegments(t *testing.T) {
	fs := crashtest.NewTornFS()
	if err := makeParent(fs); err != nil {
		t.Fatal(err)
	}
	fs.SetCapacity(40 << 10)
	j, err := journal.Open(silentFS{fs}, dir, small())
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Rotate(); err != nil || j.Stats().SegmentBytes != 32<<10 {
		t.Errorf("%v, %+v", err, j.Stats())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

package pebblelog

import (
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// guardFS stands between Pebble and the file system. It does two things.
//
// It syncs the journal before a sorted file that was a table in memory is synced, and
// before the manifest that names it: see the invariants in journal.go.
//
// And it stops the log when a write fails. Pebble answers a failed write of its
// manifest by ending the process. So the first such error trips the guard:
// the error goes to the log, which takes no more commits, Pebble is told that all
// is well, and from then on nothing of what it writes reaches the file system:
// the directory stays as a crash at that moment would have left it. Pebble goes on
// in memory, where reads find everything, and can be closed as usual.
type guardFS struct {
	vfs.FS
	dir     string                          // Pebble's directory
	failed  func(error)                     // called with the error that trips the guard
	journal atomic.Pointer[journal.Journal] // nil: there is none, or none yet

	replaying atomic.Bool // Pebble is being opened: the write-ahead logs it reads are checked first
	tripped   atomic.Bool
	once      sync.Once
	memory    *vfs.MemFS // what Pebble writes after the guard has tripped

	// While a flush of a memtable fails it is tried again, slowly, and commits are
	// refused; unless somebody waits for the flush inside Pebble, which would never end.
	flushErr atomic.Pointer[error]
	failures atomic.Int32 // in a row
	hurry    atomic.Int32 // such waits under way
	closing  chan struct{}

	stalled func(error) // called when a table in memory could not be written out
	ending  atomic.Bool // the log is about to be closed: merging files is not worth the wait
}

// writeAgain is the pause before Pebble tries again to write a sorted file.
var writeAgain = backoff.Policy{First: 10 * time.Millisecond, Max: time.Second}

// Categories under which Pebble creates sorted files.
const flushCategory = vfs.DiskWriteCategory("pebble-memtable-flush")

var (
	errTripped = errors.New("nothing is written after a failed write")
	errEnding  = errors.New("the log is being closed")
)

func newGuardFS(fs vfs.FS, dir string, failed func(error)) *guardFS {
	g := &guardFS{
		FS: fs, dir: dir, failed: failed, memory: vfs.NewMem(), closing: make(chan struct{}),
		stalled: func(error) {},
	}
	_ = g.memory.MkdirAll(dir, privateDir)
	return g
}

// close ends all pauses: what fails now fails for good.
func (g *guardFS) close() {
	g.hurry.Add(1)
	close(g.closing)
}

// trip stops all writing.
func (g *guardFS) trip(err error) {
	g.once.Do(func() {
		g.failed(err) // first: a caller that sees tripped must see the failure
		g.tripped.Store(true)
	})
}

// fileKind says what an error of a file in Pebble's directory means.
type fileKind uint8

const (
	other   fileKind = iota // outside of the directory, or opened only while Pebble is opened: it reports the error
	vital                   // manifest, marker or the directory: Pebble would panic
	flushed                 // sorted file made of a memtable: Pebble tries again at once, without end
	merged                  // sorted file made of others: Pebble tries again at once, without end
)

func (g *guardFS) kind(name string, c vfs.DiskWriteCategory) fileKind {
	if g.PathDir(name) != g.dir {
		return other
	}
	base := g.PathBase(name)
	switch {
	case strings.HasPrefix(base, "MANIFEST-"), strings.HasPrefix(base, "marker."):
		return vital
	case c == flushCategory:
		return flushed
	case strings.HasSuffix(base, ".sst"), strings.HasSuffix(base, ".blob"):
		return merged
	}
	return other
}

// failedWrite decides what becomes of an error. A nil error means: pretend that
// all is well.
func (g *guardFS) failedWrite(k fileKind, err error) error {
	switch {
	case k == vital, k == flushed && g.hurry.Load() > 0:
		g.trip(err)
	case k == flushed:
		g.flushErr.Store(&err)
		g.stalled(err)
		g.pause()
		return err
	case k == merged:
		g.pause()
		return err
	}
	if k == vital {
		return nil
	}
	return err
}

func (g *guardFS) pause() {
	n := g.failures.Add(1)
	select {
	case <-time.After(writeAgain.Delay(int(n))):
	case <-g.closing:
	}
}

// flushSucceeded is called when a memtable has been written out.
func (g *guardFS) flushSucceeded() {
	g.flushErr.Store(nil)
	g.failures.Store(0)
}

// create returns the file that make made, or what stands for it.
func (g *guardFS) create(name string, c vfs.DiskWriteCategory, make func() (vfs.File, error)) (vfs.File, error) {
	k := g.kind(name, c)
	if !g.tripped.Load() {
		f, err := make()
		if err == nil {
			return g.wrap(name, k, f), nil
		}
		if err = g.failedWrite(k, err); err != nil && !g.tripped.Load() {
			return nil, err
		}
	}
	switch k {
	case vital, flushed:
		return g.memory.Create(name, c)
	case merged:
		<-g.closing // a compaction may take more memory than there is
	}
	return nil, errTripped
}

func (g *guardFS) wrap(name string, k fileKind, f vfs.File) vfs.File {
	if k == other {
		return f
	}
	return &guardFile{File: f, fs: g, kind: k}
}

// Create implements vfs.FS.
func (g *guardFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.create(name, c, func() (vfs.File, error) {
		if err := g.beforeMarker(name); err != nil {
			return nil, err
		}
		return g.FS.Create(name, c)
	})
}

// ReuseForWrite implements vfs.FS.
func (g *guardFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.create(to, c, func() (vfs.File, error) { return g.FS.ReuseForWrite(from, to, c) })
}

// Open implements vfs.FS.
func (g *guardFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	if g.tripped.Load() {
		if f, err := g.memory.Open(name, o...); err == nil {
			return f, nil
		}
	}
	if g.replaying.Load() && g.PathDir(name) == g.dir && strings.HasSuffix(name, ".log") {
		if err := checkWAL(g.FS, name); err != nil {
			return nil, err
		}
	}
	return g.FS.Open(name, o...)
}

// OpenDir implements vfs.FS.
func (g *guardFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(name, g.PathJoin(g.dir, scratchPrefix)):
		return scratchDir{f}, nil
	case name != g.dir:
		return f, nil
	}
	return &guardFile{File: f, fs: g, kind: vital}, nil
}

// scratchDir is the directory of a checkpoint that a backup is about to stream and
// remove: it need not survive a power cut. Pebble panics when syncing it fails.
type scratchDir struct{ vfs.File }

// Sync implements vfs.File.
func (scratchDir) Sync() error { return nil }

// change makes a change of the directory that is no write to a file. Pebble looks
// at the errors of these.
func (g *guardFS) change(do func() error) error {
	if g.tripped.Load() {
		return nil
	}
	return do()
}

// Remove implements vfs.FS.
func (g *guardFS) Remove(name string) error {
	return g.change(func() error {
		if err := g.beforeMarker(name); err != nil {
			return err
		}
		return g.FS.Remove(name)
	})
}

// beforeMarker makes sure that what a marker file names, or what replaces it, is
// known to the directory before the marker is made, or removed. Pebble syncs the
// directory only once, after both, which leaves their order to the file system.
func (g *guardFS) beforeMarker(name string) error {
	if g.PathDir(name) != g.dir || !strings.HasPrefix(g.PathBase(name), "marker.") {
		return nil
	}
	dir, err := g.FS.OpenDir(g.dir)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if cerr := dir.Close(); err == nil {
		err = cerr
	}
	return err
}

// RemoveAll implements vfs.FS.
func (g *guardFS) RemoveAll(name string) error {
	return g.change(func() error { return g.FS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (g *guardFS) Rename(from, to string) error {
	return g.change(func() error { return g.FS.Rename(from, to) })
}

// Link implements vfs.FS.
func (g *guardFS) Link(from, to string) error {
	if g.tripped.Load() {
		return errTripped
	}
	return g.FS.Link(from, to)
}

// MkdirAll implements vfs.FS.
func (g *guardFS) MkdirAll(name string, perm os.FileMode) error {
	if g.tripped.Load() {
		return errTripped
	}
	return g.FS.MkdirAll(name, perm)
}

// Unwrap implements vfs.FS.
func (g *guardFS) Unwrap() vfs.FS { return g.FS }

// guardFile is a file in Pebble's directory, or the directory itself.
type guardFile struct {
	vfs.File
	fs   *guardFS
	kind fileKind
}

// do performs an operation that writes.
func (f *guardFile) do(op func() error) error {
	if f.kind == vital && f.fs.tripped.Load() {
		return nil
	}
	if f.kind == merged && f.fs.ending.Load() {
		return errEnding
	}
	if err := op(); err != nil {
		return f.fs.failedWrite(f.kind, err)
	}
	return nil
}

// Write implements vfs.File.
func (f *guardFile) Write(p []byte) (n int, err error) {
	n = len(p)
	err = f.do(func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	if err == nil {
		n = len(p)
	}
	return n, err
}

// WriteAt implements vfs.File.
func (f *guardFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.do(func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	if err == nil {
		n = len(p)
	}
	return n, err
}

// Sync implements vfs.File.
func (f *guardFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *guardFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *guardFile) sync(real func() error) error {
	if f.kind == vital || f.kind == flushed {
		if j := f.fs.journal.Load(); j != nil {
			if err := j.Sync(j.Written()); err != nil {
				f.fs.trip(err)
			}
		}
	}
	return f.do(real)
}

// SyncTo implements vfs.File.
func (f *guardFile) SyncTo(length int64) (full bool, err error) {
	err = f.do(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Preallocate implements vfs.File. It only makes writes faster.
func (f *guardFile) Preallocate(offset, length int64) error {
	_ = f.do(func() error { _ = f.File.Preallocate(offset, length); return nil })
	return nil
}

// Stat implements vfs.File.
func (f *guardFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil && f.kind == vital {
		f.fs.trip(err)
		empty := vfs.NewMemFile(nil)
		return empty.Stat()
	}
	return info, err
}

// Close implements vfs.File.
func (f *guardFile) Close() error {
	if err := f.File.Close(); err != nil {
		return f.fs.failedWrite(f.kind, err)
	}
	return nil
}

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

// guardFS is between Pebble and the file system. It has two tasks.
//
// It syncs the journal before a sorted file made of a memtable is synced, and before the
// manifest that names that file: see the invariants in journal.go.
//
// It stops the log when a write fails whose failure Pebble does not survive: after a failed
// write of its manifest Pebble ends the process. The first such error trips the guard. The log
// gets the error and takes no more commits, Pebble gets no error, and from then on no write of
// Pebble reaches the file system: the directory stays as a crash at that moment would have left
// it. Pebble continues on files in memory, where reads find everything, and can be closed as
// usual.
type guardFS struct {
	vfs.FS
	dir     string                          // Pebble's directory
	failed  func(error)                     // called with the error that trips the guard
	journal atomic.Pointer[journal.Journal] // nil: none, or not opened yet

	replaying atomic.Bool // Pebble is being opened: write-ahead logs are checked before it reads them
	tripped   atomic.Bool
	once      sync.Once
	memory    *vfs.MemFS // has what Pebble writes after the guard has tripped

	// After a failed flush of a memtable, Pebble repeats it, slowed down by pause, and commits
	// are refused meanwhile. But while a caller waits for the flush inside Pebble (hurry), such
	// a failure trips the guard, since the wait might not end.
	flushErr atomic.Pointer[error]
	failures atomic.Int32 // failures in a row
	hurry    atomic.Int32 // number of callers that wait for a flush inside Pebble
	closing  chan struct{}

	stalled func(error) // called when the flush of a memtable has failed
	ending  atomic.Bool // the log is about to be closed: compactions are not waited for
}

// writeAgain is the pause before Pebble repeats a failed write of a sorted file.
var writeAgain = backoff.Policy{First: 10 * time.Millisecond, Max: time.Second}

// flushCategory is the category under which Pebble creates sorted files of memtables.
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

// close ends all pauses. Failures after it are final.
func (g *guardFS) close() {
	g.hurry.Add(1)
	close(g.closing)
}

// trip stops all writing. Only the first call has an effect.
func (g *guardFS) trip(err error) {
	g.once.Do(func() {
		g.failed(err) // first: a caller that sees tripped must also see the failure
		g.tripped.Store(true)
	})
}

// fileKind classifies the files in Pebble's directory by the consequence of an error.
type fileKind uint8

const (
	other   fileKind = iota // outside of the directory, or opened while Pebble is opened: Pebble reports the error
	vital                   // manifest, marker or the directory: Pebble would panic
	flushed                 // sorted file made of a memtable: Pebble repeats the flush at once, without end
	merged                  // sorted file made by a compaction: Pebble repeats it at once, without end
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

// failedWrite handles err, an error of a file of kind k, and returns the error for Pebble. nil
// means that Pebble must continue as if the write had succeeded.
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

// flushSucceeded is called after the flush of a memtable.
func (g *guardFS) flushSucceeded() {
	g.flushErr.Store(nil)
	g.failures.Store(0)
}

// create returns the file that make returns, or a file in memory if the guard has tripped.
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
		<-g.closing // during the wait a compaction may need more memory than there is
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

// scratchDir is the directory of a checkpoint that a backup streams and then removes. It need
// not survive a power cut, so Sync does nothing: Pebble panics if a sync of it fails.
type scratchDir struct{ vfs.File }

// Sync implements vfs.File.
func (scratchDir) Sync() error { return nil }

// change makes a change of the directory other than a write to a file. Pebble handles the errors
// of these.
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

// beforeMarker syncs the directory before a marker file is made or removed, so that the file it
// names, or the marker that replaces it, is durable first. Pebble syncs the directory only once,
// after both, which leaves their order to the file system.
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

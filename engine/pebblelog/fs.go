package pebblelog

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lazyFS lets the committer choose for each group whether the write-ahead log is
// brought to stable storage. Pebble hands its log to the operating system only
// together with a sync, so every group is committed with one; while lazy is set,
// that sync stops at the operating system. Whatever was skipped is made up for
// before the file is closed, and by every later sync that is not lazy.
type lazyFS struct {
	vfs.FS
	lazy    atomic.Bool
	relaxed func() error // called before the first lazy group; see markRelaxed

	mu struct {
		sync.Mutex
		marked bool
		open   map[*walFile]struct{}
	}
}

func newLazyFS(fs vfs.FS, relaxed func() error) *lazyFS {
	l := &lazyFS{FS: fs, relaxed: relaxed}
	l.mu.open = map[*walFile]struct{}{}
	return l
}

// setLazy is called by the leader before each group.
func (l *lazyFS) setLazy(lazy bool) error {
	if lazy && !l.lazy.Load() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.mu.marked {
			if err := l.relaxed(); err != nil {
				return err
			}
			l.mu.marked = true
		}
	}
	l.lazy.Store(lazy)
	return nil
}

// syncNow brings what lazy groups left behind to stable storage.
func (l *lazyFS) syncNow() error {
	l.mu.Lock()
	files := make([]*walFile, 0, len(l.mu.open))
	for f := range l.mu.open {
		files = append(files, f)
	}
	l.mu.Unlock()
	for _, f := range files {
		if err := f.settle(); err != nil {
			return err
		}
	}
	return nil
}

func (l *lazyFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	w := &walFile{File: f, fs: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.open[w] = struct{}{}
	return w, nil
}

// Create implements vfs.FS.
func (l *lazyFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(name, c)
	return l.wrap(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (l *lazyFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.ReuseForWrite(oldname, newname, c)
	return l.wrap(newname, f, err)
}

// Unwrap implements vfs.FS.
func (l *lazyFS) Unwrap() vfs.FS { return l.FS }

// walFile is a write-ahead log file. owed says that a sync was skipped.
type walFile struct {
	vfs.File
	fs     *lazyFS
	owed   atomic.Bool
	closed struct {
		sync.Mutex
		yes bool
	}
}

// Sync implements vfs.File.
func (f *walFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *walFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *walFile) sync(real func() error) error {
	if f.fs.lazy.Load() {
		f.owed.Store(true)
		return nil
	}
	f.owed.Store(false)
	return real()
}

// settle makes up for skipped syncs. It may run beside writes.
func (f *walFile) settle() error {
	f.closed.Lock()
	defer f.closed.Unlock()
	if f.closed.yes || !f.owed.Swap(false) {
		return nil
	}
	return f.File.SyncData()
}

// Close implements vfs.File.
func (f *walFile) Close() error {
	err := f.settle()
	f.closed.Lock()
	f.closed.yes = true
	f.closed.Unlock()
	f.fs.mu.Lock()
	delete(f.fs.mu.open, f)
	f.fs.mu.Unlock()
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	return err
}

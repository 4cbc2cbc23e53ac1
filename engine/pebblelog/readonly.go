package pebblelog

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// overlayFS is a file system that writes nothing to the one below, whatever that one allows. New
// files, and changes of names, are in memory. So a read-only log is opened like any other: its
// journal is replayed, and its format upgraded. Files of the file system below cannot be written
// to; only lock files are opened for writing there, if possible.
type overlayFS struct {
	vfs.FS // below
	memory *vfs.MemFS

	mu      sync.Mutex
	removed map[string]bool // names in the file system below that were removed
}

func newOverlayFS(below vfs.FS) *overlayFS {
	return &overlayFS{FS: below, memory: vfs.NewMem(), removed: map[string]bool{}}
}

func refuse(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS} }

// ours reports whether name is in memory.
func (o *overlayFS) ours(name string) bool {
	_, err := o.memory.Stat(name)
	return err == nil
}

// gone reports whether name, or a directory above it, was removed.
func (o *overlayFS) gone(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if o.removed[name] {
			return true
		}
		parent := o.PathDir(name)
		if parent == name {
			return false
		}
		name = parent
	}
}

// Lock implements vfs.FS. It takes no lock if the file cannot be written.
func (o *overlayFS) Lock(name string) (io.Closer, error) {
	c, err := o.FS.Lock(name)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return io.NopCloser(nil), nil
	}
	return c, err
}

// Create implements vfs.FS.
func (o *overlayFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := o.memory.MkdirAll(o.PathDir(name), privateDir); err != nil {
		return nil, err
	}
	return o.memory.Create(name, c)
}

// Open implements vfs.FS.
func (o *overlayFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if o.ours(name) {
		return o.memory.Open(name, opts...)
	}
	if o.gone(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return o.FS.Open(name, opts...)
}

// OpenReadWrite implements vfs.FS.
func (o *overlayFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if !o.ours(name) {
		return nil, refuse("open", name)
	}
	return o.memory.OpenReadWrite(name, c, opts...)
}

// OpenDir implements vfs.FS. A sync of it does nothing.
func (o *overlayFS) OpenDir(name string) (vfs.File, error) {
	if err := o.memory.MkdirAll(name, privateDir); err != nil {
		return nil, err
	}
	return o.memory.OpenDir(name)
}

// ReuseForWrite implements vfs.FS.
func (o *overlayFS) ReuseForWrite(_, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuse("create", name)
}

// Link implements vfs.FS.
func (o *overlayFS) Link(from, to string) error {
	if !o.ours(from) {
		return refuse("link", from)
	}
	return o.memory.Link(from, to)
}

// Remove implements vfs.FS.
func (o *overlayFS) Remove(name string) error {
	if _, err := o.Stat(name); err != nil {
		return err
	}
	o.forget(name)
	if o.ours(name) {
		return o.memory.Remove(name)
	}
	return nil
}

// RemoveAll implements vfs.FS.
func (o *overlayFS) RemoveAll(name string) error {
	o.forget(name)
	return o.memory.RemoveAll(name)
}

func (o *overlayFS) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.removed[name] = true
}

// Rename implements vfs.FS.
func (o *overlayFS) Rename(from, to string) error {
	if !o.ours(from) {
		return refuse("rename", from)
	}
	return o.memory.Rename(from, to)
}

// MkdirAll implements vfs.FS.
func (o *overlayFS) MkdirAll(name string, perm os.FileMode) error {
	return o.memory.MkdirAll(name, perm)
}

// List implements vfs.FS.
func (o *overlayFS) List(name string) ([]string, error) {
	added, merr := o.memory.List(name)
	if o.gone(name) {
		return added, merr
	}
	names, err := o.FS.List(name)
	if err != nil && merr != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		return slices.Contains(added, n) || o.gone(o.PathJoin(name, n))
	})
	return append(names, added...), nil
}

// Stat implements vfs.FS.
func (o *overlayFS) Stat(name string) (vfs.FileInfo, error) {
	if o.gone(name) || o.ours(name) {
		return o.memory.Stat(name)
	}
	return o.FS.Stat(name)
}

// Unwrap implements vfs.FS.
func (o *overlayFS) Unwrap() vfs.FS { return o.FS }

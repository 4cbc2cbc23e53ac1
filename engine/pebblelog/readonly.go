package pebblelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
)

// readOnlyFS is a file system on which nothing is written, whatever the one below allows.
// Only the files of locks are opened for writing, where they can be.
type readOnlyFS struct{ vfs.FS }

// Lock implements vfs.FS. On a file that cannot be written there is no lock to take.
func (r readOnlyFS) Lock(name string) (io.Closer, error) {
	c, err := r.FS.Lock(name)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return io.NopCloser(nil), nil
	}
	return c, err
}

func refuse(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS} }

// Create implements vfs.FS.
func (readOnlyFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuse("create", name)
}

// OpenReadWrite implements vfs.FS.
func (readOnlyFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, refuse("open", name)
}

// ReuseForWrite implements vfs.FS.
func (readOnlyFS) ReuseForWrite(_, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuse("create", name)
}

// Link implements vfs.FS.
func (readOnlyFS) Link(_, name string) error { return refuse("link", name) }

// Remove implements vfs.FS.
func (readOnlyFS) Remove(name string) error { return refuse("remove", name) }

// RemoveAll implements vfs.FS.
func (readOnlyFS) RemoveAll(name string) error { return refuse("remove", name) }

// Rename implements vfs.FS.
func (readOnlyFS) Rename(_, name string) error { return refuse("rename", name) }

// MkdirAll implements vfs.FS.
func (readOnlyFS) MkdirAll(name string, _ os.FileMode) error { return refuse("mkdir", name) }

// Unwrap implements vfs.FS.
func (r readOnlyFS) Unwrap() vfs.FS { return r.FS }

// tornError is the error of a log that a crash has left with a torn tail, which durability
// os and interval allow, in a directory that is only read.
func (l *Log) tornError(err error) error {
	return &mainstem.Error{
		Kind: mainstem.KindUnavailable, Op: "open " + l.dir.path,
		Err:  fmt.Errorf("a crash has torn the end of the log, as durability os or interval allows, and it cannot be cut off here: %w", corruption{err}),
		Hint: "copy the directory to where it can be written, and open the copy",
	}
}

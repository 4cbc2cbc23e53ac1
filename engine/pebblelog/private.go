package pebblelog

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
)

// privateFS is the operating system's file system, on which only the owner of the
// process may read what a log creates: Pebble would leave it to the umask, which
// usually lets everybody. What exists keeps its mode.
type privateFS struct{ vfs.FS }

// The modes of what a log creates.
const (
	privateFile = 0o600
	privateDir  = 0o700
)

// systemFS is the file system of logs that are not given another one.
var systemFS vfs.FS = privateFS{vfs.Default}

// Create implements vfs.FS. The file has its mode from its first moment on, and takes
// the place of another one of its name, which is not written to.
func (p privateFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	err := claim(name)
	for errors.Is(err, fs.ErrExist) {
		if err = os.Remove(name); err == nil || errors.Is(err, fs.ErrNotExist) {
			err = claim(name)
		}
	}
	if err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, c)
}

// OpenReadWrite implements vfs.FS.
func (p privateFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := claim(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, c, opts...)
}

// claim creates an empty file that does not exist.
func claim(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, privateFile)
	if err != nil {
		return err
	}
	return f.Close()
}

// MkdirAll implements vfs.FS.
func (p privateFS) MkdirAll(name string, _ os.FileMode) error {
	return p.FS.MkdirAll(name, privateDir)
}

// Lock implements vfs.FS. What it locks is emptied below, so a link to another file is
// refused, and a file with content.
func (p privateFS) Lock(name string) (io.Closer, error) {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := claim(name); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > 0:
		return nil, mainstem.Errorf(mainstem.KindInvalid, "open "+name, "it is not the lock of a log, which is an empty file: it is %s of %d bytes", fileType(info.Mode()), info.Size()).
			WithHint("look where it comes from, and remove it")
	}
	return p.FS.Lock(name)
}

func fileType(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m.IsDir():
		return "a directory"
	case m.IsRegular():
		return "a file"
	}
	return "no regular file"
}

// Unwrap implements vfs.FS.
func (p privateFS) Unwrap() vfs.FS { return p.FS }

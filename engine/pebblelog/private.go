package pebblelog

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
)

// privateFS is the file system of the operating system, with new files readable by the owner of
// the process only. Pebble would use the umask, which usually lets everybody read. Existing
// files keep their mode.
type privateFS struct{ vfs.FS }

// Modes of the files and directories that a log creates.
const (
	privateFile = 0o600
	privateDir  = 0o700
)

// systemFS is the default of Options.FS.
var systemFS vfs.FS = privateFS{vfs.Default}

// Create implements vfs.FS. The file has its mode from the beginning. It replaces an existing
// file of the same name, which is not written to.
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

// Lock implements vfs.FS. The file is truncated below, so Lock refuses links to other files, and
// files with content.
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

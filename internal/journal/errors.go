package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// corrupt says that the bytes of a file from off on are not what was written there.
func corrupt(path string, off int64, what string) error {
	return mainstem.Errorf(mainstem.KindCorrupt, "open journal", "%s, byte %d: %s: %w", path, off, what, format.ErrCorrupt).
		WithHint("nothing was changed; read the disk's own diagnosis, and restore from a backup")
}

// missing says that segments are gone from dir.
func missing(dir, what string) error {
	return mainstem.Errorf(mainstem.KindCorrupt, "open journal", "%s: %s", dir, what).WithHint("put the files back, or restore from a backup")
}

// unreadable says that a file could not be read.
func unreadable(path string, err error) error {
	e := mainstem.Errorf(mainstem.KindUnavailable, "read journal", "%s: %w", path, err).WithHint("check the disk and open the log again")
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Hint = mainstem.KindDenied, "let the owner of the process read the file"
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Hint = mainstem.KindCorrupt, "put the file back, or restore from a backup"
	}
	return e
}

// noSegment says that no segment could be made for frames, none of which was written.
func noSegment(dir string, size int64, err error) error {
	return mainstem.Refusef(mainstem.KindUnavailable, "extend journal", "a segment of %d bytes in %s: %w", size, dir, err).
		WithHint("free disk space; the journal goes on by itself")
}

// failedWrite is the error of a write or sync of a segment. Nothing is written to the
// journal after it.
type failedWrite struct {
	path string
	off  int64 // from where on what is on disk is not known
	err  error
}

func (f *failedWrite) Error() string {
	return fmt.Sprintf("%s, from byte %d: %v", f.path, f.off, f.err)
}

func (f *failedWrite) Unwrap() error { return f.err }

// unknown says that frames may have been written.
func (f *failedWrite) unknown() error { return f.with(mainstem.Unknown) }

// refused says that frames were not written, because earlier ones failed.
func (f *failedWrite) refused() error { return f.with(mainstem.NotWritten) }

func (f *failedWrite) with(o mainstem.Outcome) error {
	return &mainstem.Error{
		Kind: mainstem.KindUnavailable, Op: "write journal", Outcome: o, Err: f,
		Hint: "check the disk and open the log again",
	}
}

// tooNew says that a segment was written by a later version.
func tooNew(path string) error {
	return mainstem.Errorf(mainstem.KindUnsupported, "open journal", "%s: %w", path, format.ErrNewSegment).
		WithHint("use the version that wrote it, or a later one")
}

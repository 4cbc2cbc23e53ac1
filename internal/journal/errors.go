package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// corrupt returns the error for a file whose bytes from off on are not those that were written.
func corrupt(path string, off int64, what string) error {
	return mainstem.Errorf(mainstem.KindCorrupt, "open journal", "%s, byte %d: %s: %w", path, off, what, format.ErrCorrupt).
		WithHint("nothing was changed; read the disk's own diagnosis, and restore from a backup")
}

// missing returns the error for segments that are missing in dir.
func missing(dir, what string) error {
	return mainstem.Errorf(mainstem.KindCorrupt, "open journal", "%s: %s", dir, what).WithHint("put the files back, or restore from a backup")
}

// unreadable returns the error for a file that cannot be read.
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

// noSegment returns the error for frames for which no segment could be made. None of them was
// written.
func noSegment(dir string, size int64, err error) error {
	return mainstem.Refusef(mainstem.KindUnavailable, "extend journal", "a segment of %d bytes in %s: %w", size, dir, err).
		WithHint("free disk space; the journal goes on by itself")
}

// failedWrite is the error of a write or sync of a segment. Nothing is written to the journal
// after it.
type failedWrite struct {
	path string
	off  int64 // the contents of the file from off on are unknown
	err  error
}

func (f *failedWrite) Error() string {
	return fmt.Sprintf("%s, from byte %d: %v", f.path, f.off, f.err)
}

func (f *failedWrite) Unwrap() error { return f.err }

// unknown returns the error for frames that may have been written.
func (f *failedWrite) unknown() error { return f.with(mainstem.Unknown) }

// refused returns the error for frames that were not written because of an earlier failure.
func (f *failedWrite) refused() error { return f.with(mainstem.NotWritten) }

func (f *failedWrite) with(o mainstem.Outcome) error {
	return &mainstem.Error{
		Kind: mainstem.KindUnavailable, Op: "write journal", Outcome: o, Err: f,
		Hint: "check the disk and open the log again",
	}
}

// tooNew returns the error for a segment written by a later version.
func tooNew(path string) error {
	return mainstem.Errorf(mainstem.KindUnsupported, "open journal", "%s: %w", path, format.ErrNewSegment).
		WithHint("use the version that wrote it, or a later one")
}

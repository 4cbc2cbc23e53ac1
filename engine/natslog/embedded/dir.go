package embedded

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/inuse"
)

// The files in the directory that are not the server's.
const (
	lockName  = "mainstem.lock"  // locked while the log is open
	ownerName = "mainstem.owner" // who holds the lock, for the error message of others
)

// errInUse is the error of a lock that another process holds.
var errInUse = errors.New("the lock is held")

// lockDirectory creates the directory, unless it exists, and locks it.
func lockDirectory(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, directoryError(dir, err)
	}
	lock, err := lockFile(filepath.Join(dir, lockName))
	if errors.Is(err, errInUse) {
		return nil, inuse.Error(dir, readOwner(dir), err)
	}
	if err != nil {
		return nil, directoryError(dir, err)
	}
	writeOwner(dir)
	return lock, nil
}

// directoryError is the error of a directory that cannot be created or written.
func directoryError(dir string, err error) error {
	e := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "open " + dir, Err: err}
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		e.Kind, e.Hint = mainstem.KindInvalid, "name an empty or new directory, or one that holds a log"
	case errors.Is(err, fs.ErrPermission):
		e.Kind = mainstem.KindDenied
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Hint = "free disk space and open the log again"
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EROFS):
		e.Hint = "check the disk and open the log again"
	}
	return e
}

// writeOwner is best effort: it only improves another process's error message. It writes a
// new file, and never through a link that stands there.
func writeOwner(dir string) {
	path := filepath.Join(dir, ownerName)
	_ = os.Remove(path)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = io.WriteString(f, inuse.Owner())
	_ = f.Close()
}

func readOwner(dir string) []byte {
	f, err := os.Open(filepath.Join(dir, ownerName))
	if err != nil {
		return nil
	}
	defer f.Close()
	owner, _ := io.ReadAll(io.LimitReader(f, inuse.MaxOwner))
	return owner
}

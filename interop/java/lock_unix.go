//go:build unix

package java

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// lock makes the folder dir and waits until no other process has its lock. The lock ends with
// the process, whatever ends it.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return func() { _ = f.Close() }, nil
}

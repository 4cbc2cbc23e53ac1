package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// nobody is a user who owns no file of a test.
const nobody = 65534

// TestReadOnlyCopy works on a copy of a directory that its user may read and not write. The
// super-user may write everything, so the thread takes on another user for its files.
func TestReadOnlyCopy(t *testing.T) {
	parent, err := os.MkdirTemp("", "mainstem-readonly")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "copy")
	defer func() {
		_ = chmod(parent, 0o700, 0o600)
		_ = os.RemoveAll(parent)
	}()
	if r := run(t.Context(), nil, "kv", "put", "users", "42", "name", "--log", dir); r.status != cli.ExitOK {
		t.Fatalf("%+v", r)
	}
	if err := chmod(parent, 0o555, 0o444); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(nobody); err != nil {
				t.Error(err)
				return
			}
		}
		for _, line := range [][]string{{"check"}, {"stats"}, {"kv", "get", "users", "42"}} {
			if r := run(t.Context(), nil, append(line, "--log", dir)...); r.status != cli.ExitOK {
				t.Errorf("%v: %+v", line, r)
			}
		}
		r := run(t.Context(), nil, "kv", "put", "users", "43", "name", "--log", dir)
		if r.status == cli.ExitOK || !strings.Contains(r.errors, "permission denied") {
			t.Errorf("a write: %+v", r)
		}
	}()
	<-done
}

// chmod gives all folders and files below root, and root, these modes.
func chmod(root string, folder, file fs.FileMode) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		mode := file
		if d != nil && d.IsDir() {
			mode = folder
		}
		if cerr := os.Chmod(path, mode); err == nil {
			err = cerr
		}
		return err
	})
}

// Package inuse says which process holds a directory of which only one may have a log open.
// An engine locks the directory and leaves the text of [Owner] in a file beside the lock;
// a process that does not get the lock reads the file and fails with [Error].
//
// # Testing
//
// The tests of the engines open directories twice.
package inuse

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// MaxOwner bounds what is read of the file of an owner, in bytes.
const MaxOwner = 512

// Owner describes this process to others, in lines.
func Owner() string {
	host, _ := os.Hostname()
	program := os.Args[0]
	if exe, err := os.Executable(); err == nil {
		program = exe
	}
	return fmt.Sprintf("process %d\n%s\nhost %s\nsince %s\n", os.Getpid(), program, host, time.Now().UTC().Format(time.RFC3339))
}

// Error is the error of opening the directory path, of which another process has the lock.
// owner is what that left, nil if nothing could be read; cause is the error of locking.
func Error(path string, owner []byte, cause error) error {
	by := strings.ReplaceAll(strings.TrimSpace(string(owner)), "\n", ", ")
	if by == "" {
		by = "another process, which left no name"
	}
	return mainstem.Errorf(mainstem.KindUnavailable, "open "+path, "the log is in use by %s (%w)", by, cause).
		WithHint("stop that process, or connect to it if it is a server (--log http://127.0.0.1:8080, or where it listens)")
}

package crashtest

import (
	"fmt"
	"os"
	"path"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Fault makes file operations fail: the one numbered At, or with Permanent that
// and every later one, with Err. Operations are numbered from 1. Healed, it does
// nothing more. It may be used from many goroutines.
type Fault struct {
	At        int
	Permanent bool
	Err       error
	// Only, if not nil, says which operations are counted and can fail.
	Only func(op errorfs.Op) bool

	mu struct {
		sync.Mutex
		n      int
		first  string // the operation that failed first
		spared bool   // reads work again
		healed bool
	}
}

// Wrap returns fs with the fault.
func (f *Fault) Wrap(fs vfs.FS) vfs.FS { return errorfs.Wrap(fs, f) }

// MaybeError implements errorfs.Injector.
func (f *Fault) MaybeError(op errorfs.Op) error {
	// Closing a file and asking for the free space lose nothing when they fail.
	if op.Kind == errorfs.OpFileClose || op.Kind == errorfs.OpGetDiskUsage || f.Only != nil && !f.Only(op) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.healed || f.mu.spared && op.Kind.ReadOrWrite() == errorfs.OpIsRead {
		return nil
	}
	f.mu.n++
	if f.mu.n != f.At && (!f.Permanent || f.mu.n < f.At) {
		return nil
	}
	what := fmt.Sprintf("%s %s", kindNames[op.Kind], path.Base(op.Path))
	if f.mu.first == "" {
		f.mu.first = what
	}
	return &os.PathError{Op: kindNames[op.Kind], Path: op.Path, Err: f.Err}
}

// String implements errorfs.Injector.
func (f *Fault) String() string {
	often := "once"
	if f.Permanent {
		often = "always"
	}
	return fmt.Sprintf("operation %d failing %s with %q (%s)", f.At, often, f.Err, f.First())
}

// First describes the operation that failed first, "" if none has.
func (f *Fault) First() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.first
}

// SpareReads lets reads work again: what can no longer be written can be read.
func (f *Fault) SpareReads() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.spared = true
}

// Heal ends the fault.
func (f *Fault) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.healed = true
}

var kindNames = map[errorfs.OpKind]string{
	errorfs.OpCreate: "create", errorfs.OpLink: "link", errorfs.OpOpen: "open", errorfs.OpOpenDir: "open directory",
	errorfs.OpRemove: "remove", errorfs.OpRemoveAll: "remove all", errorfs.OpRename: "rename", errorfs.OpReuseForWrite: "reuse",
	errorfs.OpMkdirAll: "make directory", errorfs.OpLock: "lock", errorfs.OpList: "list", errorfs.OpFilePreallocate: "preallocate",
	errorfs.OpStat: "stat", errorfs.OpFileRead: "read", errorfs.OpFileReadAt: "read at", errorfs.OpFileWrite: "write",
	errorfs.OpFileWriteAt: "write at", errorfs.OpFileStat: "stat file", errorfs.OpFileSync: "sync", errorfs.OpFileSyncData: "sync data",
	errorfs.OpFileSyncTo: "sync to", errorfs.OpFileFlush: "flush",
}

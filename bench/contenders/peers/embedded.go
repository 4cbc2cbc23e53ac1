package peers

import (
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Unsynced is weaker than [suite.OS]: a write is in a buffer of the process when the
// call returns, so that a killed process loses the last of them. It is what Pebble
// offers besides [suite.Memory] and [suite.Fsync].
const Unsynced suite.Durability = "unsynced"

// Pebble is Pebble as it is.
type Pebble struct {
	*pebble.DB
	Write *pebble.WriteOptions // of the durability
}

// OpenPebble opens a database in dir, or in memory.
func OpenPebble(dir string, d suite.Durability) (*Pebble, error) {
	o := &pebble.Options{Logger: quietPebble{}}
	if d == suite.Memory {
		o.FS = vfs.NewMem()
	}
	db, err := pebble.Open(dir, o)
	if err != nil {
		return nil, err
	}
	p := &Pebble{db, pebble.NoSync}
	if d == suite.Fsync {
		p.Write = pebble.Sync
	}
	return p, nil
}

// quietPebble is a logger for Pebble that writes only what ends the program: a failed
// write-ahead log must not look like a fast one.
type quietPebble struct{}

func (quietPebble) Infof(string, ...any)  {}
func (quietPebble) Errorf(string, ...any) {}

// Fatalf does not return.
func (quietPebble) Fatalf(format string, args ...any) { pebble.DefaultLogger.Fatalf(format, args...) }

// OpenBadger opens a database in dir, or in memory.
func OpenBadger(dir string, d suite.Durability) (*badger.DB, error) {
	o := badger.DefaultOptions(dir).WithLogger(nil).WithSyncWrites(d == suite.Fsync)
	if d == suite.Memory {
		o = o.WithInMemory(true).WithDir("").WithValueDir("")
	}
	return badger.Open(o)
}

// OpenBolt opens a file in dir, which bbolt syncs at each commit or never.
func OpenBolt(dir string, d suite.Durability) (*bbolt.DB, error) {
	return bbolt.Open(filepath.Join(dir, "bolt.db"), 0o600, &bbolt.Options{NoSync: d != suite.Fsync})
}

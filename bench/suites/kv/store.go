package kv

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// The errors by which a store answers.
var (
	ErrNotFound = errors.New("no such key")
	ErrConflict = errors.New("the value is another")
)

// Pair is a key and its value.
type Pair struct {
	Key   string
	Value []byte
}

// Store is a contender: tables of keys. All methods may be called from many
// goroutines. A table exists from its first write on. Slices given to a method are
// borrowed until it returns, what it returns belongs to the caller. When a write
// returns, it has the durability that the factory states.
type Store interface {
	Set(ctx context.Context, table, key string, value []byte) error
	// Get returns the value of key, or ErrNotFound.
	Get(ctx context.Context, table, key string) ([]byte, error)
	// Delete removes key; the next Get is ErrNotFound.
	Delete(ctx context.Context, table, key string) error
	// SetMany writes all pairs in the quickest way that the store has.
	SetMany(ctx context.Context, table string, pairs []Pair) error
	// GetMany returns the values of keys, in their order; nil for one that is not there.
	GetMany(ctx context.Context, table string, keys []string) ([][]byte, error)
	// Keys returns all keys of table, in any order.
	Keys(ctx context.Context, table string) ([]string, error)
	// Page returns the keys of table in the order of their bytes, limit of them after
	// the first offset.
	Page(ctx context.Context, table string, offset, limit int) ([]string, error)
	// Drop removes table with all its keys; one that does not exist is no error. It is
	// never timed.
	Drop(ctx context.Context, table string) error
	// Close releases everything, servers that Open started included.
	Close() error
}

// Version is what [Swapper.Swap] expects of a key: stores that have revisions go
// by the revision, others by the value.
type Version struct {
	Revision uint64
	Value    []byte
}

// Swapper is a [Store] that can compare and set.
type Swapper interface {
	// Read returns the version of key, or ErrNotFound.
	Read(ctx context.Context, table, key string) (Version, error)
	// Swap writes value if key is at version old, and returns the new version;
	// otherwise it writes nothing and returns ErrConflict. Of several callers with the
	// same old version one succeeds.
	Swap(ctx context.Context, table, key string, old Version, value []byte) (Version, error)
}

// Watcher is a [Store] that tells of writes.
type Watcher interface {
	// Watch calls ready when no later write to table can be missed, and then each for
	// every write, in their order, until ctx ends; then it returns. The table exists.
	// What each is given is lent until it returns.
	Watch(ctx context.Context, table string, ready func(), each func(key string, value []byte)) error
}

// Bounded is a [Store] that may refuse large values.
type Bounded interface {
	// Fits returns an error if a value of so many bytes cannot be written; one that
	// matches [suite.ErrSkip] skips the cases with such values. It leaves no key behind.
	Fits(ctx context.Context, size int) error
}

// Factory is a contender.
type Factory struct {
	Name       string // as in [suite.Entry.Contender]
	Durability suite.Durability
	// Transport is how an operation reaches the data; it is shown in every row.
	Transport suite.Transport
	// Address is as in [suite.Entry]: of a server that the user names.
	Address string
	Note    string      // one sentence on what is particular to it, if anything
	Lacks   suite.Lacks // cases that the contender cannot run
	// ScaleKeys is how many keys the scale tests write; default 1,000,000. Contenders
	// that wait for a network or a disk for each key take fewer.
	ScaleKeys int
	// Skip is as in [suite.Entry]; nil means that the contender can always run.
	Skip func(env *suite.Env) string
	// Open opens a new store with its files in dir, which is there and empty. An
	// error that matches [suite.ErrSkip] skips the case.
	Open func(ctx context.Context, env *suite.Env, dir string) (Store, error)
}

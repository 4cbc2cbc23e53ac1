package readmodel

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/kv"
)

// Options describe a [Table]. Key is required; other zero fields mean the defaults.
type Options[T any] struct {
	// Key returns the key of an entry: 1 to [mainstem.MaxKey] bytes. It must be pure. Required.
	Key func(T) string
	// Codec encodes the entries. Default: codec.JSON.
	Codec codec.Codec
	// NoFeed makes writes cheaper for a table that is never watched, as by [kv.Bucket.Watch]; see
	// [kv.Options]. It takes effect when the first write creates the table.
	NoFeed bool
	// Durability of the methods that commit by themselves. Default: the log's.
	Durability mainstem.Durability
	// Indexes are maintained by every write; see [kv.OpenIndexed]. All programs that write the
	// table must declare the same. The fields of an entry in an index and its key have about 4,000
	// bytes together at most. If the table has entries before it has an index, queries use the
	// index only after [Table.Build].
	//
	// A query uses the index that fits best. An index fits if the query compares its first fields
	// by Eq, In or IsNull, or the field after those by Gt, Ge, Lt, Le, Between, NotNull, or Like
	// with a literal beginning. It also fits a query with a Limit whose OrderBy has the fields of
	// the index, after those with one value, in one direction. A query with Or uses no index.
	Indexes []Index
}

// Table is a read model: entries of type T, a struct or a pointer to one, by key. It is the table
// of package kv with the same name, and kv can read it. It holds no resources and needs no Close;
// all methods may be called from many goroutines.
//
// Methods that write commit at once, with [Options.Durability]. The forms that take a batch add the
// write to the batch. They depend on the declared indexes of the table and, if there are any, read
// the present entry: the commit fails with Conflict if another process changes either before it.
// See [kv.Indexed].
type Table[T any] struct {
	log     mainstem.Log
	bucket  *kv.Bucket[T]  // for reads by key
	indexed *kv.Indexed[T] // for writes, and for reads by an index
	indexes []index        // of Options.Indexes
	key     func(T) string
	typ     reflect.Type // of the struct, without pointers
	opts    Options[T]
}

// Open returns the table "database/table" of log; see [kv.Open]. It reads and creates nothing.
// Options without a Key, a T that is not a struct, or a wrong index are Invalid.
func Open[T any](log mainstem.Log, name string, o *Options[T]) (*Table[T], error) {
	if o == nil || o.Key == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "read model", "table %.40q: Options.Key is nil", name)
	}
	t := reflect.TypeFor[T]()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "read model", "table %.40q: %s is not a struct", name, t)
	}
	c := o.Codec
	if c == nil {
		c = codec.JSON
	}
	indexes, keep, err := compileIndexes[T](t, o.Indexes)
	if err != nil {
		return nil, err
	}
	ko := &kv.Options{Codec: c, NoFeed: o.NoFeed, Durability: o.Durability}
	b, err := kv.Open[T](log, name, ko)
	if err != nil {
		return nil, err
	}
	x, err := kv.OpenIndexed(log, name, ko, keep...)
	if err != nil {
		return nil, err
	}
	return &Table[T]{log: log, bucket: b, indexed: x, indexes: indexes, key: o.Key, typ: t, opts: *o}, nil
}

// Build builds the indexes of a table that had entries before it had the indexes. When it returns
// nil, queries can use them; see [kv.Indexed.Build]. If there is nothing to build, it costs one
// read.
func (t *Table[T]) Build(ctx context.Context) error { return t.indexed.Build(ctx) }

// Bucket returns the table as a bucket, for watches, history and pages. If the table has indexes,
// writes through the bucket fail with a [*kv.IndexedError].
func (t *Table[T]) Bucket() *kv.Bucket[T] { return t.bucket }

// Key returns the key of an entry.
func (t *Table[T]) Key(v T) string { return t.key(v) }

// Get returns the entry with a key, or NotFound.
func (t *Table[T]) Get(ctx context.Context, key string) (T, error) {
	e, err := t.bucket.Get(ctx, key)
	return e.Value, err
}

// GetMany returns the entries of keys, in the order of keys, as of one moment. Keys without an
// entry are left out.
func (t *Table[T]) GetMany(ctx context.Context, keys ...string) ([]T, error) {
	entries, err := t.bucket.GetMany(ctx, keys...)
	if err != nil {
		return nil, err
	}
	var out []T
	for i := range entries {
		if entries[i].Live() {
			out = append(out, entries[i].Value)
		}
	}
	return out, nil
}

// Insert adds an entry. If there is one with its key, the error is of kind Exists.
func (t *Table[T]) Insert(ctx context.Context, v T) error {
	_, err := t.indexed.Create(ctx, t.key(v), v)
	return err
}

// InsertTo adds to b the write of a new entry. If there is an entry with its key, the commit fails
// with Conflict.
func (t *Table[T]) InsertTo(ctx context.Context, b *mainstem.Batch, v T) error {
	return t.indexed.CreateTo(ctx, b, t.key(v), v)
}

// Update replaces the entry with the key of v. If there is none, the error is of kind NotFound.
func (t *Table[T]) Update(ctx context.Context, v T) error {
	key := t.key(v)
	_, err := t.indexed.Put(ctx, key, v, kv.IfExists())
	if errors.Is(err, mainstem.ErrConflict) {
		return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "update", Space: t.bucket.Space(), Key: []byte(key), Outcome: mainstem.NotWritten}
	}
	return err
}

// UpdateTo adds to b the write that replaces the entry with the key of v. If there is none, the
// commit fails with Conflict.
func (t *Table[T]) UpdateTo(ctx context.Context, b *mainstem.Batch, v T) error {
	return t.indexed.PutTo(ctx, b, t.key(v), v, kv.IfExists())
}

// Upsert adds an entry, or replaces the entry with its key.
func (t *Table[T]) Upsert(ctx context.Context, v T) error {
	_, err := t.indexed.Put(ctx, t.key(v), v)
	return err
}

// UpsertTo adds to b the write that adds an entry, or replaces the entry with its key.
func (t *Table[T]) UpsertTo(ctx context.Context, b *mainstem.Batch, v T) error {
	return t.indexed.PutTo(ctx, b, t.key(v), v)
}

// Delete removes the entry with a key. It is no error if there is none.
func (t *Table[T]) Delete(ctx context.Context, key string) error { return t.indexed.Delete(ctx, key) }

// DeleteTo adds to b the deletion of the entry with a key. It is no error if there is none.
func (t *Table[T]) DeleteTo(ctx context.Context, b *mainstem.Batch, key string) error {
	return t.indexed.DeleteTo(ctx, b, key)
}

// deleteBatch is the largest number of entries that DeleteMany removes in one commit.
const deleteBatch = 500

// DeleteMany removes the entries that q selects, in commits of up to 500. It returns how many it
// has removed, also with an error; a commit of unknown outcome is not counted. If a selected entry
// changes before its commit, that commit removes nothing, and DeleteMany selects the remaining
// entries again.
func (t *Table[T]) DeleteMany(ctx context.Context, q *Query) (int, error) {
	removed := 0
	rest := *q
	for {
		found, err := t.find(ctx, &rest)
		if err != nil || len(found) == 0 {
			return removed, err
		}
		n, err := t.deleteUnchanged(ctx, found)
		removed += n
		if !errors.Is(err, mainstem.ErrConflict) {
			return removed, err
		}
		if q.limit > 0 {
			rest.limit = q.limit - removed // more than 0: the failed commit had at least one entry
		}
	}
}

// deleteUnchanged removes entries that have not changed since they were read, and returns how many.
// If one has changed, it stops with Conflict.
func (t *Table[T]) deleteUnchanged(ctx context.Context, entries []found[T]) (removed int, err error) {
	for some := range slices.Chunk(entries, deleteBatch) {
		b := mainstem.NewBatch()
		b.Durability = t.opts.Durability
		for _, e := range some {
			if err := t.indexed.DeleteTo(ctx, b, e.key, kv.IfRevision(e.revision)); err != nil {
				return removed, err
			}
		}
		if _, err := t.log.Commit(ctx, b); err != nil {
			return removed, err
		}
		removed += len(some)
	}
	return removed, nil
}

// Clear removes all entries, in commits of up to 500; see [Table.DeleteMany].
func (t *Table[T]) Clear(ctx context.Context) error {
	_, err := t.DeleteMany(ctx, All())
	return err
}

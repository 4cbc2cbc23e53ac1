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

// Options describe a [Table].
type Options[T any] struct {
	// Key returns the key of an entry: 1 to [mainstem.MaxKey] bytes. Required.
	Key func(T) string
	// Codec encodes the entries. Default codec.JSON.
	Codec codec.Codec
	// Durability of the calls that commit by themselves. Default: the log's.
	Durability mainstem.Durability
	// Indexes are kept by every write. A query uses the one that fits best: whose first fields it compares by Eq, In or
	// IsNull, and the next one by Gt, Ge, Lt, Le, Between, NotNull, or Like with a text in front; or whose fields, behind
	// those with one value, are those of OrderBy, in one direction, with a Limit. A query with Or uses none. Fields and key
	// of an entry have some 4,000 bytes together at most. In a table that has entries, an index is used when
	// [Table.Build] has built it. All programs that write the table give the same; see [kv.OpenIndexed].
	Indexes []Index
}

// Table is a read model: entries of type T, a struct or a pointer to one, by key. It is the table
// of package kv with the same name, and may be read as such. It holds no resources, and is safe for concurrent use.
type Table[T any] struct {
	log     mainstem.Log
	bucket  *kv.Bucket[T] // to read
	indexed *kv.Indexed[T]
	indexes []index
	key     func(T) string
	typ     reflect.Type // of the struct
	opts    Options[T]
}

// Open returns the table "database/table" of log; see [kv.Open]. It reads and creates nothing.
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
	ko := &kv.Options{Codec: c, Durability: o.Durability}
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

// Build builds the indexes of a table that had entries before it had them, and returns when they can be used; see
// [kv.Indexed.Build]. If there is nothing to build, it costs one read.
func (t *Table[T]) Build(ctx context.Context) error { return t.indexed.Build(ctx) }

// Bucket returns the table as a bucket, for all that kv offers besides: watches, history, pages. If the table has
// indexes, it refuses to write.
func (t *Table[T]) Bucket() *kv.Bucket[T] { return t.bucket }

// Key returns the key of an entry.
func (t *Table[T]) Key(v T) string { return t.key(v) }

// Get returns the entry with a key, or NotFound.
func (t *Table[T]) Get(ctx context.Context, key string) (T, error) {
	e, err := t.bucket.Get(ctx, key)
	return e.Value, err
}

// GetMany returns the entries with these keys that are there, in the order of the keys, all of one moment.
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

// The writes into a batch read first, if the table has an index: then they make the batch depend on what they
// read, and Commit fails with Conflict if somebody else has changed it meanwhile.

// Insert adds an entry, or is Exists if there is one with its key.
func (t *Table[T]) Insert(ctx context.Context, v T) error {
	_, err := t.indexed.Create(ctx, t.key(v), v)
	return err
}

// InsertTo adds an entry as part of b, whose commit fails with a Conflict if there is one with its key.
func (t *Table[T]) InsertTo(ctx context.Context, b *mainstem.Batch, v T) error {
	return t.indexed.CreateTo(ctx, b, t.key(v), v)
}

// Update replaces the entry with the key of v, or is NotFound if there is none.
func (t *Table[T]) Update(ctx context.Context, v T) error {
	key := t.key(v)
	_, err := t.indexed.Put(ctx, key, v, kv.IfExists())
	if errors.Is(err, mainstem.ErrConflict) {
		return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "update", Space: t.bucket.Space(), Key: []byte(key), Outcome: mainstem.NotWritten}
	}
	return err
}

// UpdateTo replaces the entry with the key of v as part of b, whose commit fails with a Conflict if there is none.
func (t *Table[T]) UpdateTo(ctx context.Context, b *mainstem.Batch, v T) error {
	return t.indexed.PutTo(ctx, b, t.key(v), v, kv.IfExists())
}

// Upsert adds an entry or replaces the one with its key.
func (t *Table[T]) Upsert(ctx context.Context, v T) error {
	_, err := t.indexed.Put(ctx, t.key(v), v)
	return err
}

// UpsertTo adds an entry, or replaces the one with its key, as part of b.
func (t *Table[T]) UpsertTo(ctx context.Context, b *mainstem.Batch, v T) error {
	return t.indexed.PutTo(ctx, b, t.key(v), v)
}

// Delete removes the entry with a key. One that is not there is no error.
func (t *Table[T]) Delete(ctx context.Context, key string) error { return t.indexed.Delete(ctx, key) }

// DeleteTo removes the entry with a key as part of b. One that is not there is no error.
func (t *Table[T]) DeleteTo(ctx context.Context, b *mainstem.Batch, key string) error {
	return t.indexed.DeleteTo(ctx, b, key)
}

// deleteBatch is how many entries one commit of DeleteMany removes.
const deleteBatch = 500

// DeleteMany removes the entries that q selects, in commits of 500, and returns how many it
// removed, also with an error. If entries of a commit changed since they were selected, what is left is
// selected anew.
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
			rest.limit = q.limit - removed // more than 0: the commit that failed had some
		}
	}
}

// deleteUnchanged removes entries, and returns how many; a Conflict if some have changed.
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

// Clear removes every entry, in commits of 500.
func (t *Table[T]) Clear(ctx context.Context) error {
	_, err := t.DeleteMany(ctx, All())
	return err
}

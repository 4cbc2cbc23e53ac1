package kv

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Indexed is a typed handle on a table with indexes. It reads like [Bucket], and by its indexes
// with [Indexed.By]. Its writes maintain the indexes in the commit of the value. They must
// therefore read first, so their only form for batches is PutTo(ctx, batch, …) error. Such a write
// makes the batch depend on everything that it read: if another process changed it, Commit fails
// with Conflict, and the caller builds the batch again. Immediate writes try again by themselves.
//
// An Indexed holds no resources and needs no Close; all methods may be called from many goroutines.
type Indexed[T any] struct {
	plain   *Bucket[T]
	indexes []Index[T]                  // declared by this program
	cached  atomic.Pointer[declared[T]] // maintained by writes; nil if it must be read
	seen    atomic.Pointer[declared[T]] // as read last, whether or not writes can maintain it
}

// declared is the declaration of a table as read by this program. It is not changed.
type declared[T any] struct {
	declaration
	version Revision    // 0: none
	keep    []keeper[T] // one for each of declaration.Indexes
	typed   bool        // an element of keep needs decoded values
	foreign string      // an index that only other programs can maintain; "" if there is none
	stale   bool        // an index of this program is not declared, or only in an older version
}

// OpenIndexed returns a handle on the table "database/table" of log, like [Open], whose writes
// maintain the given indexes and those declared from the command line. OpenIndexed reads and
// creates nothing.
//
// The first write declares the indexes in the log, and so does [Indexed.Build], which a program
// calls when it starts: in a table that has values, an index must be built before it can be read.
// From then on, every program that writes to the table must have every index, with the same name
// and version: writes by a plain [Bucket] fail with an [*IndexedError], and those by an Indexed
// that lacks the function of an index are Unavailable. Remove an index that no program declares any
// more with [DropIndex].
func OpenIndexed[T any](log mainstem.Log, name string, o *Options, indexes ...Index[T]) (*Indexed[T], error) {
	b, err := Open[T](log, name, o)
	if err != nil {
		return nil, err
	}
	if b.policy.MaxBytes > 0 {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "kv open", "%s: MaxBytes removes values without their entries in an index: bound the table by MaxAge or TTL", b.Name())
	}
	seen := map[string]bool{}
	for i := range indexes {
		if err := indexes[i].validate(); err != nil {
			return nil, err
		}
		if seen[indexes[i].Name] {
			return nil, mainstem.Errorf(mainstem.KindInvalid, "kv open", "%s: two indexes are called %s", b.Name(), indexes[i].Name)
		}
		seen[indexes[i].Name] = true
	}
	return &Indexed[T]{plain: b, indexes: append([]Index[T](nil), indexes...)}, nil
}

// Name returns "database/table".
func (x *Indexed[T]) Name() string { return x.plain.Name() }

// Database returns the name of the database.
func (x *Indexed[T]) Database() string { return x.plain.database }

// Table returns the name of the table within its database.
func (x *Indexed[T]) Table() string { return x.plain.table }

// Space returns the name of the space that holds the values, for feeds.
func (x *Indexed[T]) Space() string { return x.plain.space }

// Get is [Bucket.Get].
func (x *Indexed[T]) Get(ctx context.Context, key string) (Entry[T], error) {
	return x.plain.Get(ctx, key)
}

// GetMany is [Bucket.GetMany].
func (x *Indexed[T]) GetMany(ctx context.Context, keys ...string) ([]Entry[T], error) {
	return x.plain.GetMany(ctx, keys...)
}

// GetRevision is [Bucket.GetRevision].
func (x *Indexed[T]) GetRevision(ctx context.Context, key string, revision Revision) (Entry[T], error) {
	return x.plain.GetRevision(ctx, key, revision)
}

// List is [Bucket.List], in the order of the keys.
func (x *Indexed[T]) List(ctx context.Context, q *Query) iter.Seq2[Entry[T], error] {
	return x.plain.List(ctx, q)
}

// Keys is [Bucket.Keys].
func (x *Indexed[T]) Keys(ctx context.Context, q *Query) iter.Seq2[string, error] {
	return x.plain.Keys(ctx, q)
}

// Count is [Bucket.Count].
func (x *Indexed[T]) Count(ctx context.Context, q *Query) (int64, error) {
	return x.plain.Count(ctx, q)
}

// Page is [Bucket.Page].
func (x *Indexed[T]) Page(ctx context.Context, q *Query) (entries []Entry[T], next string, err error) {
	return x.plain.Page(ctx, q)
}

// History is [Bucket.History].
func (x *Indexed[T]) History(ctx context.Context, key string, v mainstem.Versions) iter.Seq2[Entry[T], error] {
	return x.plain.History(ctx, key, v)
}

// Watch is [Bucket.Watch].
func (x *Indexed[T]) Watch(ctx context.Context, o *WatchOptions) iter.Seq2[Entry[T], error] {
	return x.plain.Watch(ctx, o)
}

// Drop is [Bucket.Drop].
func (x *Indexed[T]) Drop(ctx context.Context) error { return x.plain.Drop(ctx) }

// Alter is [Bucket.Alter].
func (x *Indexed[T]) Alter(ctx context.Context) error { return x.plain.Alter(ctx) }

// ExpectTo is [Bucket.ExpectTo].
func (x *Indexed[T]) ExpectTo(batch *mainstem.Batch, key string, condition Condition) {
	x.plain.ExpectTo(batch, key, condition)
}

// ExplainConflict implements [mainstem.Explainer]. It explains nothing: it notes that the
// declaration has changed, so that the next attempt reads it.
func (x *Indexed[T]) ExplainConflict(_ context.Context, _ *mainstem.Batch, conflict *mainstem.Error) error {
	if conflict.Space == x.plain.catalog.space {
		x.cached.Store(nil)
	}
	return nil
}

// load reads the declaration from r. It decodes it only if its version is not that of the last
// read: versions never repeat.
func (x *Indexed[T]) load(ctx context.Context, r mainstem.Reader) (*declared[T], error) {
	value, version, err := x.plain.catalog.stored(ctx, r)
	if err != nil {
		return nil, err
	}
	if d := x.seen.Load(); d != nil && d.version == version {
		return d, nil
	}
	decl := declaration{}
	if version > 0 {
		if decl, err = x.plain.catalog.decode(value); err != nil {
			return nil, err
		}
	}
	d := x.resolve(decl, version)
	x.seen.Store(d)
	return d, nil
}

// resolve determines which of the declared indexes this program can maintain.
func (x *Indexed[T]) resolve(decl declaration, version Revision) *declared[T] {
	d := &declared[T]{declaration: decl, version: version}
	for _, info := range decl.Indexes {
		k := keeper[T]{IndexInfo: info, space: info.Space}
		own := x.own(info.Name)
		switch {
		case own != nil && own.Version == info.Version && own.Unique == info.Unique && own.Field == info.Field:
			k.of, k.typed = partsOf(own), own.Field == ""
		case own != nil && own.Version > info.Version:
			d.stale = true
		case own == nil && info.Field != "":
			k.of = fieldOf[T](info.Field)
		}
		if k.of == nil && d.foreign == "" {
			d.foreign = info.Name
		}
		d.typed = d.typed || k.typed
		d.keep = append(d.keep, k)
	}
	for _, k := range d.keep { // after all indexes that can be read
		if k.Guard != 0 {
			k.guard, k.State = true, IndexReady
			k.space = entrySpace(x.plain.database, x.plain.table, k.Name, k.Guard)
			d.keep = append(d.keep, k)
		}
	}
	for i := range x.indexes {
		d.stale = d.stale || decl.find(x.indexes[i].Name) == nil
	}
	return d
}

func (x *Indexed[T]) own(name string) *Index[T] {
	for i := range x.indexes {
		if x.indexes[i].Name == name {
			return &x.indexes[i]
		}
	}
	return nil
}

// writable returns a declaration whose indexes this program can all maintain. It declares the
// program's own indexes first.
func (x *Indexed[T]) writable(ctx context.Context) (*declared[T], error) {
	if d := x.cached.Load(); d != nil {
		return d, nil
	}
	d, err := x.load(ctx, x.plain.log)
	if err == nil && d.stale {
		d, err = x.declare(ctx)
	}
	if err != nil {
		return nil, notWritten(err)
	}
	if d.foreign != "" {
		return nil, x.foreignError(d, d.foreign)
	}
	x.cached.Store(d)
	return d, nil
}

func (x *Indexed[T]) foreignError(d *declared[T], index string) error {
	i := d.find(index)
	if own := x.own(i.Name); own != nil {
		return mainstem.Refusef(mainstem.KindUnavailable, "kv", "table %s: index %s is version %d in the log (unique %v, field %q), and version %d in this program (unique %v, field %q)",
			x.Name(), i.Name, i.Version, i.Unique, i.Field, own.Version, own.Unique, own.Field).
			WithHint("update this program, or give its definition a higher Version, which builds the index anew")
	}
	return mainstem.Refusef(mainstem.KindUnavailable, "kv", "table %s: this program does not know how to keep index %s, version %d", x.Name(), i.Name, i.Version).
		WithHint("declare it in this program, or drop it: mainstem kv index drop " + x.Name() + " " + i.Name)
}

// declare adds the indexes of this program that are missing in the declaration, or have an older
// version there. In an empty table they are ready at once.
func (x *Indexed[T]) declare(ctx context.Context) (*declared[T], error) {
	c := &x.plain.catalog
	err := c.change(ctx, func(d *declaration, b *mainstem.Batch) (changed bool, err error) {
		if len(d.Indexes) == 0 {
			if d.MaxAge, err = x.tableAge(ctx); err != nil {
				return false, err
			}
		}
		for i := range x.indexes {
			own := &x.indexes[i]
			if old := d.find(own.Name); old != nil && own.Version <= old.Version {
				continue
			}
			changed = true
			info := IndexInfo{Name: own.Name, Unique: own.Unique, Version: own.Version, Field: own.Field}
			if err := c.renew(ctx, d, b, info); err != nil {
				return false, err
			}
		}
		return changed, nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.sweep(ctx); err != nil {
		return nil, err
	}
	if err := x.buildEmpty(ctx); err != nil {
		return nil, err
	}
	return x.load(ctx, x.plain.log)
}

// tableAge returns the MaxAge of the table, which is also that of the entries.
func (x *Indexed[T]) tableAge(ctx context.Context) (age time.Duration, err error) {
	info, err := x.plain.log.Space(ctx, x.plain.space)
	switch {
	case errors.Is(err, mainstem.ErrNotFound):
		return x.plain.policy.MaxAge, nil
	case err != nil:
		return 0, err
	case info.Policy.MaxBytes > 0:
		return 0, mainstem.Refusef(mainstem.KindInvalid, "kv index", "table %s has MaxBytes, which removes values without their entries in an index: alter it first", x.Name())
	}
	return info.Policy.MaxAge, nil
}

package kv

import (
	"context"
	"errors"
	"iter"

	"github.com/mainstemdev/mainstem"
)

// PutTo adds to batch the write of value to key, and maintains the indexes. It reads, and makes the
// batch depend on what it read. It takes earlier writes of the batch into account: a key has the
// value that the batch gives it, and a unique value that the batch uses is taken. To find these
// writes it searches the batch: for thousands of keys use [Indexed.PutManyTo], which searches once.
// A value that another key has in a unique index is a [*UniqueError]. An error is returned here and
// by Commit.
func (x *Indexed[T]) PutTo(ctx context.Context, batch *mainstem.Batch, key string, value T, opts ...PutOption) error {
	return failed(batch, x.put(ctx, &view{batch: batch}, "put", key, value, collect(x.plain.valueIf(Condition{}), opts)))
}

// CreateTo is PutTo on condition that the key has no value: otherwise Commit fails with Conflict.
func (x *Indexed[T]) CreateTo(ctx context.Context, batch *mainstem.Batch, key string, value T, opts ...ValueOption) error {
	return failed(batch, x.put(ctx, &view{batch: batch}, "create", key, value, collect(x.plain.valueIf(IfAbsent()), opts)))
}

// UpdateTo is PutTo on condition that the key has a value and its revision is revision.
func (x *Indexed[T]) UpdateTo(ctx context.Context, batch *mainstem.Batch, key string, value T, revision Revision, opts ...ValueOption) error {
	return failed(batch, x.put(ctx, &view{batch: batch}, "update", key, value, collect(x.plain.valueIf(IfRevision(revision)), opts)))
}

// PutManyTo is PutTo of all pairs, in their order. The options hold for each pair.
func (x *Indexed[T]) PutManyTo(ctx context.Context, batch *mainstem.Batch, pairs []Pair[T], opts ...PutOption) error {
	_, err := x.putMany(ctx, batch, pairs, opts)
	return failed(batch, err)
}

// putMany returns the indexes of the values among the writes of batch.
func (x *Indexed[T]) putMany(ctx context.Context, batch *mainstem.Batch, pairs []Pair[T], opts []PutOption) ([]int, error) {
	v := &view{batch: batch, index: make(map[string]int, 4*len(pairs))}
	s := collect(x.plain.valueIf(Condition{}), opts)
	at := make([]int, len(pairs))
	for i := range pairs {
		at[i] = batch.Len()
		if err := x.put(ctx, v, "put", pairs[i].Key, pairs[i].Value, s); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// DeleteTo adds to batch the deletion of key, and maintains the indexes as PutTo does.
func (x *Indexed[T]) DeleteTo(ctx context.Context, batch *mainstem.Batch, key string, opts ...DeleteOption) error {
	return failed(batch, x.end(ctx, &view{batch: batch}, mainstem.OpDelete, key, opts))
}

// PurgeTo is DeleteTo that also removes the history of the key; see [Bucket.PurgeTo].
func (x *Indexed[T]) PurgeTo(ctx context.Context, batch *mainstem.Batch, key string, opts ...DeleteOption) error {
	return failed(batch, x.end(ctx, &view{batch: batch}, mainstem.OpPurge, key, opts))
}

// ModifyTo adds to batch the write of the value that change returns for the value of key. If the
// batch writes the key already, that is the batch's value. Otherwise it is like [Bucket.ModifyTo].
func (x *Indexed[T]) ModifyTo(ctx context.Context, batch *mainstem.Batch, key string, change func(old T, found bool) (T, error), opts ...ValueOption) error {
	_, _, err := x.modify(ctx, batch, key, change, opts)
	return failed(batch, err)
}

func (x *Indexed[T]) modify(ctx context.Context, batch *mainstem.Batch, key string, change func(old T, found bool) (T, error), opts []ValueOption) (old prior[T], value T, err error) {
	s := collect(x.plain.valueIf(Condition{}), opts)
	if err := x.plain.check("modify", key, &s); err != nil {
		return old, value, err
	}
	d, err := x.writable(ctx)
	if err != nil {
		return old, value, err
	}
	v := &view{batch: batch}
	if old, err = x.prior(ctx, v, "modify", key, true); err != nil {
		return old, value, err
	}
	before := old.partsIn(d) // change may edit what the old value refers to
	if value, err = change(old.value, old.live); err != nil {
		return old, value, err
	}
	return old, value, x.replace(ctx, v, d, &old, before, "modify", key, value, s)
}

func failed(batch *mainstem.Batch, err error) error {
	if err != nil {
		batch.Fail(err)
	}
	return err
}

// now commits the writes that fill adds to a batch, and tries again if a record that fill read has
// changed meanwhile. It returns a Conflict only if it is about condition, the caller's own, on one
// of the keys.
func (x *Indexed[T]) now(ctx context.Context, condition Condition, fill func(*mainstem.Batch) error) (mainstem.Receipt, error) {
	for attempt := 0; ; attempt++ {
		b := mainstem.NewBatch()
		b.Durability = x.plain.durability
		if err := fill(b); err != nil {
			return mainstem.Receipt{}, err
		}
		r, err := x.plain.log.Commit(ctx, b)
		if err == nil || !errors.Is(err, mainstem.ErrConflict) || x.isOf(err, condition) {
			return r, err
		}
		if err := pause(ctx, attempt); err != nil {
			return mainstem.Receipt{}, err
		}
	}
}

// isOf reports whether err is a Conflict of the caller's own condition.
func (x *Indexed[T]) isOf(err error, c Condition) bool {
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Space != x.plain.space {
		return false
	}
	switch c.test {
	case testAbsent:
		return e.Want.Test == mainstem.TestAbsent
	case testExists:
		return e.Want.Test == mainstem.TestExists
	case testRevision:
		return e.Want.Test == mainstem.TestExists || e.Want.Test == mainstem.TestVersion && e.Want.Version == c.revision
	}
	return false
}

func (x *Indexed[T]) putNow(ctx context.Context, op, key string, value T, s settings) (mainstem.Receipt, error) {
	return x.now(ctx, s.condition, func(b *mainstem.Batch) error {
		return x.put(ctx, &view{batch: b}, op, key, value, s)
	})
}

// Put is [Bucket.Put]. A value that another key has in a unique index is a [*UniqueError].
func (x *Indexed[T]) Put(ctx context.Context, key string, value T, opts ...PutOption) (Revision, error) {
	r, err := x.putNow(ctx, "put", key, value, collect(x.plain.valueIf(Condition{}), opts))
	return revisionOf(r), err
}

// Create is [Bucket.Create]. A value that another key has in a unique index is a [*UniqueError], which is Exists, too.
func (x *Indexed[T]) Create(ctx context.Context, key string, value T, opts ...ValueOption) (Revision, error) {
	r, err := x.putNow(ctx, "create", key, value, collect(x.plain.valueIf(IfAbsent()), opts))
	return revisionOf(r), x.plain.existsError(key, err)
}

// Update is [Bucket.Update]. A value that another key has in a unique index is a [*UniqueError].
func (x *Indexed[T]) Update(ctx context.Context, key string, value T, revision Revision, opts ...ValueOption) (Revision, error) {
	r, err := x.putNow(ctx, "update", key, value, collect(x.plain.valueIf(IfRevision(revision)), opts))
	return revisionOf(r), err
}

// PutMany is [Bucket.PutMany]. Two pairs with one value in a unique index are a [*UniqueError].
func (x *Indexed[T]) PutMany(ctx context.Context, pairs []Pair[T], opts ...PutOption) ([]Revision, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	var at []int
	s := collect(x.plain.valueIf(Condition{}), opts)
	r, err := x.now(ctx, s.condition, func(b *mainstem.Batch) (err error) {
		at, err = x.putMany(ctx, b, pairs, opts)
		return err
	})
	if err != nil {
		return nil, hintImport(err)
	}
	revisions := make([]Revision, len(pairs))
	for i := range at {
		revisions[i] = r.Versions[at[i]]
	}
	return revisions, nil
}

// Import is [Bucket.Import]: it commits in chunks, each with the entries of its values.
func (x *Indexed[T]) Import(ctx context.Context, pairs iter.Seq[Pair[T]], o *ImportOptions) (int64, error) {
	c := o.withDefaults()
	var chunk []Pair[T]
	done, size := int64(0), 0
	flush := func() error {
		_, err := x.PutMany(ctx, chunk, c.Write...)
		if err == nil {
			done += int64(len(chunk))
			chunk, size = chunk[:0], 0
		}
		return err
	}
	for p := range pairs {
		stored, err := x.plain.codec.Append(nil, p.Value)
		if err != nil {
			return done, x.plain.encodeError("put", p.Key, err)
		}
		chunk, size = append(chunk, p), size+len(p.Key)+len(stored)
		if len(chunk) >= c.ChunkPairs || size >= c.ChunkBytes {
			if err := flush(); err != nil {
				return done, err
			}
		}
	}
	return done, flush()
}

// Delete is [Bucket.Delete].
func (x *Indexed[T]) Delete(ctx context.Context, key string, opts ...DeleteOption) error {
	return x.endNow(ctx, mainstem.OpDelete, key, opts)
}

// Purge is [Bucket.Purge].
func (x *Indexed[T]) Purge(ctx context.Context, key string, opts ...DeleteOption) error {
	for {
		if err := x.endNow(ctx, mainstem.OpPurge, key, opts); err != nil {
			return err
		}
		if err := x.plain.truncate(ctx, key); !errors.Is(err, mainstem.ErrConflict) {
			return err
		} // a value was written meanwhile
	}
}

// endNow writes nothing if the key has no value and opts contain no condition, so that it does not
// create a table.
func (x *Indexed[T]) endNow(ctx context.Context, op mainstem.Op, key string, opts []DeleteOption) error {
	s := collect(settings{}, opts)
	if s.condition.test == 0 && s.err == nil && validateKey("delete", x.plain.space, key) == nil {
		if _, err := x.plain.log.Get(ctx, x.plain.space, []byte(key)); err != nil {
			if errors.Is(err, mainstem.ErrNotFound) {
				return nil
			}
			return notWritten(err)
		}
	}
	_, err := x.now(ctx, s.condition, func(b *mainstem.Batch) error {
		return x.end(ctx, &view{batch: b}, op, key, opts)
	})
	return err
}

// Modify is [Bucket.Modify]. A value that another key has in a unique index is a [*UniqueError].
func (x *Indexed[T]) Modify(ctx context.Context, key string, change func(old T, found bool) (T, error), opts ...ValueOption) (Entry[T], error) {
	var old prior[T]
	var value T
	r, err := x.now(ctx, Condition{}, func(b *mainstem.Batch) (err error) {
		old, value, err = x.modify(ctx, b, key, change, opts)
		return err
	})
	if err != nil {
		return Entry[T]{}, err
	}
	e := written(r, key, value, old.live)
	x.plain.complete(ctx, &e, collect(x.plain.valueIf(Condition{}), opts))
	return e, nil
}

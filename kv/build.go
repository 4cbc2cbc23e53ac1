package kv

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// An index that is declared on a table with values is built: its entries are written key by key, in
// commits of a chunk of keys, while writers continue. This works because writers maintain the index
// from its declaration on:
//
//   - A chunk is committed on condition that its keys are unchanged since they were read, so a
//     build never undoes a write.
//   - The entry of a key that is created behind the build is written with the key.
//   - No write that was prepared before the declaration can commit after it, because each write has
//     a condition on the version of the declaration.
//
// The last key of a chunk is stored in the commit of the chunk. So a build that was interrupted, by
// the end of its process or an error, is resumed there. Of two concurrent builds, one gets a
// conflict and continues from the progress of the other.

// buildChunk is how many keys one commit of a build reads. A conflict halves it, down to one.
const buildChunk = 256

// Build declares the indexes of this program, builds those that are not ready, and returns when all
// are ready. If they are ready already, it costs one read. It resumes an interrupted build. If two
// keys have the same value in a unique index, Build fails with a [*UniqueError]; call it again when
// one of the two was changed.
func (x *Indexed[T]) Build(ctx context.Context) error {
	x.cached.Store(nil)
	for {
		d, err := x.writable(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(d.keep, func(k keeper[T]) bool { return k.State == IndexBuilding })
		if i < 0 {
			return x.plain.catalog.sweep(ctx)
		}
		if err := x.build(ctx, d, &d.keep[i]); err != nil {
			return err
		}
		x.cached.Store(nil) // the index has become ready, or the declaration has changed
	}
}

// Rebuild drops the entries of one index and builds them anew. The index cannot be read until
// Rebuild returns. Values of a unique index stay unique meanwhile: writes also maintain its old
// entries, which are dropped at the end.
func (x *Indexed[T]) Rebuild(ctx context.Context, index string) error {
	x.cached.Store(nil)
	d, err := x.writable(ctx)
	if err != nil {
		return err
	}
	if d.find(index) == nil {
		return mainstem.Refusef(mainstem.KindNotFound, "rebuild index", "the table %s has no index %.80q", x.Name(), index)
	}
	c := &x.plain.catalog
	err = c.change(ctx, func(d *declaration, b *mainstem.Batch) (bool, error) {
		old := d.find(index)
		if old == nil {
			return false, mainstem.Refusef(mainstem.KindNotFound, "rebuild index", "the table %s has no index %.80q any more", x.Name(), index)
		}
		return true, c.renew(ctx, d, b, *old)
	})
	if err != nil {
		return err
	}
	return x.Build(ctx)
}

// buildEmpty makes the indexes ready if the table has no values.
func (x *Indexed[T]) buildEmpty(ctx context.Context) error {
	for _, err := range x.plain.log.Scan(ctx, x.plain.space, mainstem.Range{KeysOnly: true, Limit: 1}) {
		if err == nil {
			return nil
		}
		if !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
	}
	// Writes from now on maintain the indexes that are declared now.
	d, err := x.load(ctx, x.plain.log)
	if err != nil {
		return err
	}
	for i := range d.keep {
		if k := &d.keep[i]; k.State == IndexBuilding && k.of != nil {
			// Values written since have their entries from their own writes, so the build finds
			// nothing to add.
			if err := x.build(ctx, d, k); err != nil {
				return err
			}
			return x.buildEmpty(ctx)
		}
	}
	return nil
}

// build builds one index. It returns nil if the declaration changes meanwhile.
func (x *Indexed[T]) build(ctx context.Context, d *declared[T], keep *keeper[T]) error {
	c := &x.plain.catalog
	p, version, err := c.progress(ctx, x.plain.log, keep.space)
	if err != nil {
		return err
	}
	size := buildChunk
	for attempt := 0; ; {
		if p.Total == 0 {
			info, err := x.plain.log.Space(ctx, x.plain.space)
			if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
				return err
			}
			p.Total = info.Keys
		}
		n, next, err := x.buildSome(ctx, d, keep, p, version, size)
		switch {
		case errors.Is(err, mainstem.ErrConflict):
			if _, now, err := c.read(ctx, x.plain.log); err != nil || now != d.version {
				return err
			}
			if p, version, err = c.progress(ctx, x.plain.log, keep.space); err != nil {
				return err
			}
			size = max(1, size/2)
			if err := pause(ctx, attempt); err != nil {
				return err
			}
			attempt++
			continue
		case err != nil:
			return err
		case n == 0:
			return x.finish(ctx, keep)
		}
		p, version, err = next.progress, next.version, nil
		attempt, size = 0, min(2*size, buildChunk)
	}
}

type builtTo struct {
	progress
	version Revision
}

// buildSome writes the entries of the next keys after p and returns the number of keys.
func (x *Indexed[T]) buildSome(ctx context.Context, d *declared[T], keep *keeper[T], p progress, version Revision, size int) (n int, next builtTo, err error) {
	c, b := &x.plain.catalog, mainstem.NewBatch()
	v := &view{batch: b, index: make(map[string]int, 2*size)}
	r := mainstem.Range{Limit: size}
	if p.Key != nil {
		r.Start = append(slices.Clone(p.Key), 0)
	}
	x.begin(b, d)
	var records []mainstem.Record
	for r, err := range x.plain.log.Scan(ctx, x.plain.space, r) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break
		}
		if err != nil {
			return 0, next, err
		}
		records = append(records, r.Clone())
	}
	for i := range records {
		if err := x.buildOne(ctx, v, d, keep, &records[i]); err != nil {
			return 0, next, err
		}
		p.Key = records[i].Key
	}
	if len(records) == 0 {
		return 0, next, nil
	}
	p.Done += int64(len(records))
	value, err := json.Marshal(p)
	if err != nil {
		return 0, next, err
	}
	key := []byte(prefixBuilt + keep.space)
	if version == 0 {
		b.IfAbsent(c.space, key)
	} else {
		b.IfVersion(c.space, key, version)
	}
	at := b.Len()
	b.Put(c.space, key, value)
	receipt, err := x.plain.log.Commit(ctx, b)
	if err != nil {
		return 0, next, err
	}
	return len(records), builtTo{p, receipt.Versions[at]}, nil
}

// buildOne adds the entry of one value. If the value expires or has a MaxAge, its entry lives
// longer than the value, because only the engine's clock says how much time the value has left.
// Such an entry is marked, so that Count also reads its value.
func (x *Indexed[T]) buildOne(ctx context.Context, v *view, d *declared[T], keep *keeper[T], r *mainstem.Record) error {
	parts, err := x.partsOf("build index", keep, r)
	if err != nil {
		return err
	}
	p := prior[T]{live: true, rev: r.Version}
	p.addCondition(v.batch, x.plain.space, r.Key)
	c := entryChange{key: string(r.Key), fresh: parts, late: !r.Expires.IsZero() || d.MaxAge > 0}
	err = x.keepEntry(ctx, v, d, keep, c)
	var unique *UniqueError
	if errors.As(err, &unique) {
		return x.stillSo(ctx, r, err)
	}
	return err
}

// stillSo returns err, which reports that another key has the value of r too, if that still holds:
// r was read before the other key was. If the key of r has changed since, the result is a Conflict.
func (x *Indexed[T]) stillSo(ctx context.Context, r *mainstem.Record, err error) error {
	now, gone := x.plain.log.Get(ctx, x.plain.space, r.Key)
	switch {
	case gone != nil && !errors.Is(gone, mainstem.ErrNotFound):
		return gone
	case gone != nil || now.Version != r.Version:
		return mainstem.Refusef(mainstem.KindConflict, "build index", "key %.64q has changed meanwhile", r.Key)
	}
	return err
}

// finish makes the index ready, unless its declaration has changed.
func (x *Indexed[T]) finish(ctx context.Context, keep *keeper[T]) error {
	c := &x.plain.catalog
	return c.change(ctx, func(d *declaration, b *mainstem.Batch) (bool, error) {
		i := d.find(keep.Name)
		if i == nil || i.Generation != keep.Generation || i.State == IndexReady {
			return false, nil
		}
		i.State = IndexReady
		if i.Guard != 0 {
			c.dropTo(b, entrySpace(c.database, c.table, i.Name, i.Guard))
			i.Guard = 0
		}
		b.Add(mainstem.Write{Op: mainstem.OpForget, Space: c.space, Key: []byte(prefixBuilt + keep.space)})
		return true, nil
	})
}

// partsOf returns the parts of the value of a record.
func (x *Indexed[T]) partsOf(op string, keep *keeper[T], r *mainstem.Record) ([]Part, error) {
	var value T
	if keep.typed {
		var err error
		if value, err = x.plain.value(r.Value, lent); err != nil {
			return nil, x.plain.decodeError(op, r, err)
		}
	}
	return keep.of(&value, r.Value), nil
}

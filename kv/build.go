package kv

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// An index that is declared on a table with values is built: its entries are written key by key, in commits of a chunk
// of keys, while writers go on. It works since they keep the index from the declaration on:
//
//   - A chunk is written on condition that its keys are as they were read, so that a build never undoes a write.
//   - A key that comes into being behind the build has its entry from its own write.
//   - No write from before the declaration can come after it: such writes depend on the declaration as it was.
//
// The last key of a chunk is written down with it. So a build that ended, with its process or by an error, goes on
// there, and of two builds at the same time one conflicts and goes on behind the other.

// buildChunk is how many keys one commit of a build reads. A conflict halves it, down to one.
const buildChunk = 256

// Build declares the indexes of this program, builds those that are not ready, and returns when all are. If they are,
// it costs one read. It goes on where another build ended. A value that two keys have, in an index that is to
// be unique, ends it with a [*UniqueError]: it can go on when one of them is changed.
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

// Rebuild drops the entries of one index and builds them anew. Until it returns, the index cannot be read. Values of
// a unique index stay unique meanwhile: writes keep its old entries too, which are dropped at the end.
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

// buildEmpty makes the indexes of a table ready that has no values.
func (x *Indexed[T]) buildEmpty(ctx context.Context) error {
	for _, err := range x.plain.log.Scan(ctx, x.plain.space, mainstem.Range{KeysOnly: true, Limit: 1}) {
		if err == nil {
			return nil
		}
		if !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
	}
	// Whatever is written from now on keeps the indexes that are declared now.
	d, err := x.load(ctx, x.plain.log)
	if err != nil {
		return err
	}
	for i := range d.keep {
		if k := &d.keep[i]; k.State == IndexBuilding && k.of != nil {
			// A value may have been written since, by one who keeps the index, so the build finds nothing to add.
			if err := x.build(ctx, d, k); err != nil {
				return err
			}
			return x.buildEmpty(ctx)
		}
	}
	return nil
}

// build builds one index, or returns nil when the declaration has changed meanwhile.
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

// buildSome writes the entries of the next keys after p, and returns how many there were.
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

// buildOne adds the entry of one value. That of a value that expires, or gets too old, stays longer: how long the value
// has left is known by the engine's clock only. So it is marked, and who counts entries looks at its value.
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

// stillSo returns err, which says that the value of r is another key's too, if that is so now: r was read
// before the other key was. If its key has changed since, it is a Conflict.
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

// finish makes the index ready, unless the declaration of it has changed.
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

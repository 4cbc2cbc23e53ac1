package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
)

// A write of an indexed table has four steps:
//
// 1. Read the key's present value: from the batch if the batch writes the key already, else from
// the log, with the
//     condition that it is unchanged at the commit.
// 2. Write the value. 3. For each index, compute the parts of the old value and of the new one.
// Forget the old entry, put the new one. 4. The key of an entry of a unique index is made of its
// parts alone. So if two writers use the same parts, the
//     condition of one of them, that there is no entry, fails.
//
// The commit also depends on the declaration (see catalog.go), and every write maintains the
// declared indexes. So the entries match the values at every place in the order of the log.
//
// Invariant: an entry does not end before its value. Both have the same time to live and the same
// commit, so they expire at the same moment; if a value may expire, or the table has a MaxAge, each
// write of the value writes the entry again. An entry that is left over, because of a raw write or
// MaxBytes, is detected by comparing it with its value, and another key may take it over.

// headerLate marks an entry that may stay longer than its value.
const headerLate = reservedHeader + "late"

// prior is the state of a key before a write.
type prior[T any] struct {
	live    bool
	inBatch bool // the batch itself wrote it
	expires bool
	rev     Revision
	value   T
	stored  []byte
}

// view finds the last write to a key in a batch.
type view struct {
	batch *mainstem.Batch
	index map[string]int // index of the last write to each key among the writes before upto, if there are many; else nil
	upto  int
}

func (v *view) last(space string, key []byte) *mainstem.Write {
	writes := v.batch.Writes()
	if v.index == nil {
		for i := len(writes) - 1; i >= 0; i-- {
			if writes[i].Space == space && string(writes[i].Key) == string(key) {
				return &writes[i]
			}
		}
		return nil
	}
	for ; v.upto < len(writes); v.upto++ {
		v.index[writes[v.upto].Space+"\x00"+string(writes[v.upto].Key)] = v.upto
	}
	if i, ok := v.index[space+"\x00"+string(key)]; ok {
		return &writes[i]
	}
	return nil
}

// prior returns the state of key, from the batch or else from the log, with the value itself if
// decode is set.
func (x *Indexed[T]) prior(ctx context.Context, v *view, op, key string, decode bool) (p prior[T], err error) {
	k := []byte(key)
	if w := v.last(x.plain.space, k); w != nil {
		p.inBatch = true
		if p.live = w.Op == mainstem.OpPut; p.live {
			p.stored, p.expires = w.Value, w.TTL > 0
			if decode {
				p.value, err = x.plain.value(w.Value, lent)
			}
		}
		return p, err
	}
	r, err := x.plain.log.Get(ctx, x.plain.space, k)
	if errors.Is(err, mainstem.ErrNotFound) {
		return p, nil
	}
	if err != nil {
		return p, notWritten(err)
	}
	p = prior[T]{live: true, rev: r.Version, expires: !r.Expires.IsZero(), stored: r.Value}
	if !decode {
		return p, nil
	}
	if p.value, err = x.plain.value(r.Value, lent); err != nil {
		err = notWritten(x.plain.decodeError(op, &r, err))
	}
	return p, err
}

// partsIn returns the parts of the value in each index of d: nil without a value.
func (p *prior[T]) partsIn(d *declared[T]) [][]Part {
	parts := make([][]Part, len(d.keep))
	for i := range parts {
		if p.live {
			parts[i] = d.keep[i].of(&p.value, p.stored)
		}
	}
	return parts
}

// addCondition makes batch depend on p being unchanged at the commit.
func (p *prior[T]) addCondition(batch *mainstem.Batch, space string, key []byte) {
	switch {
	case p.inBatch:
	case p.live:
		s := settings{condition: IfRevision(p.rev)}
		s.addCondition(batch, space, key)
	default:
		batch.IfAbsent(space, key)
	}
}

// put adds the write of value to key, and the entries of all indexes, to the batch of v.
func (x *Indexed[T]) put(ctx context.Context, v *view, op, key string, value T, s settings) error {
	b := x.plain
	if err := b.check(op, key, &s); err != nil {
		return err
	}
	d, err := x.writable(ctx)
	if err != nil {
		return err
	}
	old := prior[T]{inBatch: true} // without an index, the present value does not matter
	if len(d.keep) > 0 {
		if old, err = x.prior(ctx, v, op, key, d.typed); err != nil {
			return err
		}
	}
	return x.replace(ctx, v, d, &old, old.partsIn(d), op, key, value, s)
}

// replace is put for an old value that was read already. before is its parts as stored: value may
// share memory with the old value, and its parts may have changed with it.
func (x *Indexed[T]) replace(ctx context.Context, v *view, d *declared[T], old *prior[T], before [][]Part, op, key string, value T, s settings) error {
	b := x.plain
	_, k, stored, err := b.encode(nil, key, value)
	if err != nil {
		return b.encodeError(op, key, err)
	}
	if d.typed && !b.raw {
		// The entry is that of the value as it will be decoded: a codec may leave out fields, and
		// JSON replaces bytes that are not UTF-8.
		if value, err = b.decode(stored); err != nil {
			return b.encodeError(op, key, fmt.Errorf("the value cannot be read as it is written: %w", err))
		}
	}
	x.begin(v.batch, d)
	v.batch.Ensure(b.space, b.policy)
	s.addCondition(v.batch, b.space, k)
	old.addCondition(v.batch, b.space, k)
	v.batch.Add(mainstem.Write{Op: mainstem.OpPut, Space: b.space, Key: k, Value: stored, Headers: s.headers, TTL: s.ttl})
	for i := range d.keep {
		keep := &d.keep[i]
		e := entryChange{key: key, ttl: s.ttl, again: s.ttl > 0 || old.expires || d.MaxAge > 0, old: before[i], fresh: keep.of(&value, stored)}
		if err := x.keepEntry(ctx, v, d, keep, e); err != nil {
			return err
		}
	}
	return nil
}

// end adds the deletion of key, and of its entries in all indexes, to the batch of v.
func (x *Indexed[T]) end(ctx context.Context, v *view, op mainstem.Op, key string, opts []DeleteOption) error {
	b := x.plain
	s := collect(settings{}, opts)
	if err := b.check(op.String(), key, &s); err != nil {
		return err
	}
	d, err := x.writable(ctx)
	if err != nil {
		return err
	}
	old := prior[T]{inBatch: true}
	if len(d.keep) > 0 {
		if old, err = x.prior(ctx, v, op.String(), key, d.typed); err != nil {
			return err
		}
	}
	k := []byte(key)
	x.begin(v.batch, d)
	v.batch.Ensure(b.space, b.policy)
	s.addCondition(v.batch, b.space, k)
	old.addCondition(v.batch, b.space, k)
	v.batch.Add(mainstem.Write{Op: op, Space: b.space, Key: k, Headers: s.headers})
	for i, parts := range old.partsIn(d) {
		if err := x.keepEntry(ctx, v, d, &d.keep[i], entryChange{key: key, old: parts}); err != nil {
			return err
		}
	}
	return nil
}

// begin makes batch depend on the declaration.
func (x *Indexed[T]) begin(batch *mainstem.Batch, d *declared[T]) {
	x.plain.catalog.addCondition(batch, d.version)
	batch.ExplainWith(x)
}

// entryChange describes the effect of a write on the entry of its key in an index.
type entryChange struct {
	key        string
	old, fresh []Part // nil: no entry
	ttl        time.Duration
	again      bool // write the entry even if it does not change
	late       bool // the entry may stay longer than its value
}

// keepEntry adds the change of one index to the batch of v.
func (x *Indexed[T]) keepEntry(ctx context.Context, v *view, d *declared[T], keep *keeper[T], c entryChange) error {
	same := len(c.old) > 0 && slices.Equal(c.old, c.fresh)
	if same && !c.again {
		return nil
	}
	if len(c.old) > 0 && !same {
		if err := x.forget(ctx, v, d, keep, c); err != nil {
			return err
		}
	}
	if len(c.fresh) == 0 {
		return nil
	}
	entry := entryKey(c.fresh, c.key, keep.Unique)
	if len(entry) > mainstem.MaxKey {
		return mainstem.Refusef(mainstem.KindInvalid, "kv", "index %s: the parts of key %.64q take, with the key, %d bytes: the limit is %d", keep.Name, c.key, len(entry), mainstem.MaxKey)
	}
	w := mainstem.Write{Op: mainstem.OpPut, Space: keep.space, Key: entry, TTL: c.ttl}
	if c.late {
		w.Headers = mainstem.Headers{{Name: headerLate}}
	}
	if keep.Unique {
		if err := x.claim(ctx, v, keep, c, entry); err != nil {
			return err
		}
		w.Value = []byte(c.key)
	}
	v.batch.Ensure(keep.space, entryPolicy(d.MaxAge))
	v.batch.Add(w)
	return nil
}

// forget removes the entry of the old value. In a unique index that is being built, the entry may
// be that of another key: two older values are equal then.
func (x *Indexed[T]) forget(ctx context.Context, v *view, d *declared[T], keep *keeper[T], c entryChange) error {
	entry := entryKey(c.old, c.key, keep.Unique)
	if keep.Unique {
		h, err := x.holder(ctx, v, keep, entry)
		if err != nil {
			return err
		}
		h.addCondition(v.batch, keep.space, entry) // also if there is no entry: a build may write it meanwhile
		if h.key != c.key {
			return nil
		}
	}
	v.batch.Ensure(keep.space, entryPolicy(d.MaxAge))
	v.batch.Add(mainstem.Write{Op: mainstem.OpForget, Space: keep.space, Key: entry})
	return nil
}

// holder is the key that an entry of a unique index belongs to.
type holder struct {
	key     string // "" if there is no entry
	inBatch bool
	version Revision
}

func (h *holder) addCondition(b *mainstem.Batch, space string, entry []byte) {
	switch {
	case h.inBatch:
	case h.key == "":
		b.IfAbsent(space, entry)
	default:
		b.IfVersion(space, entry, h.version)
	}
}

func (x *Indexed[T]) holder(ctx context.Context, v *view, keep *keeper[T], entry []byte) (h holder, err error) {
	if w := v.last(keep.space, entry); w != nil {
		h.inBatch = true
		if w.Op == mainstem.OpPut {
			h.key = string(w.Value)
		}
		return h, nil
	}
	r, err := x.plain.log.Get(ctx, keep.space, entry)
	if errors.Is(err, mainstem.ErrNotFound) {
		return h, nil
	}
	if err != nil {
		return h, notWritten(err)
	}
	return holder{key: string(r.Value), version: r.Version}, nil
}

// claim makes sure that the key may have entry in a unique index, now and at the commit. An entry
// whose holder has another value, or none, is left over, and is taken over on condition that this
// does not change.
func (x *Indexed[T]) claim(ctx context.Context, v *view, keep *keeper[T], c entryChange, entry []byte) error {
	h, err := x.holder(ctx, v, keep, entry)
	if err != nil {
		return err
	}
	if h.key != "" && h.key != c.key {
		p, err := x.prior(ctx, v, "put", h.key, keep.typed)
		if err != nil {
			return err
		}
		if p.live && slices.Equal(keep.of(&p.value, p.stored), c.fresh) {
			return &UniqueError{Table: x.Name(), Index: keep.Name, Value: c.fresh, Key: c.key, HeldBy: h.key}
		}
		p.addCondition(v.batch, x.plain.space, []byte(h.key))
	}
	h.addCondition(v.batch, keep.space, entry)
	return nil
}

package logcopy

import (
	"bytes"
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
)

// keys compares the keys of a space, in their order: whether they are live, and, in a
// space without feed, all their records.
func (p *comparison) keys(ctx context.Context, sp *space) error {
	quiet := sp.info.Policy.NoFeed
	r := mainstem.Range{Tombstones: true, KeysOnly: !quiet}
	s := walk(p.read.Scan(ctx, sp.info.Name, r))
	defer s.stop()
	t := walk(p.to.Scan(ctx, sp.info.Name, r))
	defer t.stop()
	listed := int64(0)
	source := func(r *mainstem.Record) bool { listed++; return p.ends(r) }
	if err := errors.Join(s.step(source), t.step(p.ends)); err != nil {
		return err
	}
	for s.ok || t.ok {
		order := order(s, t)
		if s.ok && order <= 0 {
			p.verified.Keys++
		}
		if err := p.pair(ctx, sp, s, t, order); err != nil {
			return err
		}
		var err error
		if order <= 0 {
			err = s.step(source)
		}
		if order >= 0 {
			err = errors.Join(err, t.step(p.ends))
		}
		if err != nil {
			return err
		}
	}
	if quiet && p.snapshot != nil {
		p.Copy.report.Hidden = max(p.Copy.report.Hidden, sp.info.Keys-listed)
	}
	return nil
}

// order compares the keys under two cursors: below zero, only the source has it.
func order(s, t *cursor) int {
	switch {
	case !t.ok:
		return -1
	case !s.ok:
		return 1
	}
	return bytes.Compare(s.rec.Key, t.rec.Key)
}

// pair compares the newest records of a key.
func (p *comparison) pair(ctx context.Context, sp *space, s, t *cursor, order int) error {
	var key []byte
	switch {
	case order < 0 && s.rec.Tombstone == mainstem.Expired, order > 0 && t.rec.Tombstone == mainstem.Expired:
		return nil // each engine writes it when it likes
	case order < 0:
		key = s.rec.Key
	case order > 0:
		key = t.rec.Key
	case s.rec.Version != t.rec.Version || kind(&s.rec) != kind(&t.rec):
		key = s.rec.Key
	case sp.info.Policy.NoFeed:
		what, _ := unlike(&s.rec, &t.rec, p.mayBeLater(&s.rec))
		if what == "" && (sp.info.Policy.History == 1 || s.rec.First() == 1) {
			p.count(&s.rec)
			return nil
		}
		key = s.rec.Key
	default:
		return nil // the feeds have shown it
	}
	key = bytes.Clone(key)
	whole := keyOf(sp.info.Name, key)
	if p.compared[whole] {
		return nil
	}
	p.compared[whole] = true
	if order < 0 {
		if done, err := p.nothingToEnd(ctx, s); done || err != nil {
			return err
		}
	}
	found := p.different + p.repaired + p.moving
	newest := t.rec.Version
	if order < 0 {
		newest = s.rec.Version
	}
	if err := p.key(ctx, sp, key); err != nil {
		return err
	}
	switch {
	case order == 0 || found != p.different+p.repaired+p.moving:
		return nil
	case order > 0:
		return p.endKey(ctx, sp, key, newest)
	}
	p.differ(sp.info.Name, key, newest, "it is the newest at the source, and in the target a later one was removed")
	return nil
}

// endKey is for a key whose newest record was removed at the source while older ones
// are held. The target holds the same, but takes one of them for the newest.
func (p *comparison) endKey(ctx context.Context, sp *space, key []byte, newest mainstem.Version) error {
	if !p.repair {
		p.differ(sp.info.Name, key, newest, "it is the newest in the target, and not at the source: a later one was removed there")
		return nil
	}
	before := newest + 1
	if v, err := probe(ctx, p.from, sp.info.Name, key); err == nil && v > before {
		// The source may have gone on: then what it says now is too much.
		if head, err := p.from.Head(ctx); err == nil && head == p.upTo {
			before = v
		}
	}
	return p.advance(ctx, sp, key, newest, before)
}

// advance makes the target go on behind version before, without a record that holds it.
// What takes the versions in between, and is removed at once, must not supersede a record
// that the space keeps: for that moment it keeps one more.
func (p *comparison) advance(ctx context.Context, sp *space, key []byte, newest, before mainstem.Version) error {
	kept := sp.work.History
	if err := p.keep(ctx, sp, min(kept+1, mainstem.MaxHistory)); err != nil {
		return err
	}
	b := mainstem.NewBatch()
	left := fill(b, sp, key, newest, before, false)
	for _, v := range left {
		b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: sp.info.Name, Key: key, Version: v})
	}
	if err := p.change(ctx, sp, b, 1); err != nil {
		return err
	}
	return p.keep(ctx, sp, kept)
}

// keep makes a space of the target keep so many records of a key; one that keeps all
// goes on to.
func (p *comparison) keep(ctx context.Context, sp *space, history int) error {
	policy := sp.work
	if policy.History > 0 {
		policy.History = history
	}
	return p.w.alter(ctx, sp, policy)
}

// versionsGoOn sees to the keys that may hold no record: their versions go on where they
// do at the source.
func (p *comparison) versionsGoOn(ctx context.Context) error {
	for _, h := range p.heads {
		got, err := probe(ctx, p.to, h.sp.info.Name, h.key)
		if err != nil {
			return err
		}
		switch {
		case got >= h.version:
		case !p.repair:
			p.differ(h.sp.info.Name, h.key, h.version, "the versions of the key go on behind it, and in the target before it")
		default:
			if err := p.advance(ctx, h.sp, h.key, got, h.version); err != nil {
				return err
			}
		}
	}
	return nil
}

// change commits repairs of a space: n of them.
func (p *comparison) change(ctx context.Context, sp *space, b *mainstem.Batch, n int64) error {
	if b.Len() == 0 {
		return nil
	}
	// What remembers the versions of a key without records goes when a tombstone would, and
	// by the times of a copy that may be at once.
	if sp.info.Policy.History != 0 {
		policy := sp.work
		policy.TombstoneAge = -1
		if err := p.w.alter(ctx, sp, policy); err != nil {
			return err
		}
	}
	b.Time = p.w.clock
	if _, err := p.w.commit(ctx, b, p.w.notes.Position); err != nil {
		return err
	}
	clear(p.w.heads.young)
	clear(p.w.heads.old)
	p.repaired += n
	return nil
}

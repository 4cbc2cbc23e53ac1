package topic

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/internal/unpack"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// cleaning is one pass of compaction over a partition: it goes from the start to
// the limit, one extent and one commit at a time, and leaves each batch with the
// records that are to stay. Every commit by itself leaves the partition right, so
// it may end anywhere; the next pass starts over.
//
// Why a tombstone may go when its batch has a delete horizon: the horizon is set
// when a pass meets the tombstone, and the pass has then removed every older
// record of the key, for it goes upwards and knows the tombstone's offset.
type cleaning struct {
	dirt
	keys      *offsetMap
	now       int64 // ms
	retention int64 // delete.retention.ms
	largest   int   // bytes that a batch may have

	earliest int64 // ms: the earliest delete horizon met or set
	rewrite  recordbatch.Rewriter
}

// clean runs the pass.
func (p *partitionState) clean(ctx context.Context, c *cleaning) error {
	u := unpack.New(ctx, p.t.c.o.Memory)
	defer u.Release()
	c.rewrite.Room = u.Room
	c.earliest = noHorizon
	for cursor := int64(0); cursor < c.limit; {
		next, err := p.cleanStep(ctx, c, cursor)
		if err != nil {
			return err
		}
		cursor = next
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadIndexLocked(ctx); err != nil {
		return err
	}
	next := p.index.state
	next.cleaned, next.horizon = max(next.cleaned, c.limit), c.earliest
	if next == p.index.state {
		return nil
	}
	b := mainstem.NewBatch()
	b.Durability = mainstem.OS // what a power cut brings back is compacted again
	return p.commitLocked(ctx, b, next)
}

// cleanStep cleans the first extent that ends above cursor and returns where it ends.
func (p *partitionState) cleanStep(ctx context.Context, c *cleaning, cursor int64) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadIndexLocked(ctx); err != nil {
		return 0, err
	}
	// Batches may have come after the index was brought up to date.
	if err := p.extendToLocked(ctx, c.limit); err != nil {
		return 0, err
	}
	i := p.index.find(cursor)
	if i == len(p.index.extents) {
		return c.limit, nil // trimmed meanwhile
	}
	old := p.index.extents[i]
	b := mainstem.NewBatch()
	b.Durability = mainstem.OS
	e, err := p.cleanExtent(ctx, c, b, old)
	if err != nil || b.Len() == 0 {
		return old.next, err
	}
	p.index.extents[i] = e
	p.index.front = glance{}
	p.mergeLocked(b, i)
	return old.next, p.commitLocked(ctx, b, p.index.state)
}

// mergeLocked joins extent i with the one before it if both are small, so that
// there are never many more extents than the batches need.
func (p *partitionState) mergeLocked(b *mainstem.Batch, i int) {
	if i == 0 {
		return
	}
	a, e := &p.index.extents[i-1], p.index.extents[i]
	if l := p.index.limits; a.bytes+e.bytes > l.bytes || a.batches+e.batches > l.batches {
		return
	}
	a.next = e.next
	a.bytes += e.bytes
	a.batches += e.batches
	a.newest = max(a.newest, e.newest)
	if e.stamp > a.stamp {
		a.stamp, a.stamped = e.stamp, e.stamped
	}
	a.saved = false
	p.index.extents = append(p.index.extents[:i], p.index.extents[i+1:]...)
	b.Add(mainstem.Write{Op: mainstem.OpForget, Space: IndexSpace, Key: extentKey(stateKey(p.t.id, p.num), e.base)})
}

// cleanExtent adds to b what makes the batches of old clean, and returns the
// extent as it then is.
func (p *partitionState) cleanExtent(ctx context.Context, c *cleaning, b *mainstem.Batch, old extent) (extent, error) {
	e := newExtent(old.base, old.next)
	for rec, err := range p.batches(ctx, old.base) {
		if err != nil {
			return e, p.t.seen(err)
		}
		base := int64(rec.First()) - 1
		if base >= old.next {
			break
		}
		h, err := recordbatch.Parse(rec.Value)
		if err != nil {
			return e, p.corrupt(&rec, err)
		}
		if base < c.limit {
			v, err := c.verdict(rec.Value, &h, base)
			switch {
			case unpack.NoRoom(err):
				return e, err
			case err != nil:
				p.unreadable(base, err)
			case v.remove:
				b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: p.t.space, Key: p.Key(), Version: rec.Version})
				continue
			case v.batch != nil:
				b.Rewrite(p.t.space, p.Key(), rec.Version, v.batch, rec.Headers.Clone())
				rec.Value, h = v.batch, v.header
			}
		}
		e.add(p.t.c.glanceAt(&rec, &h, p.index.state.start))
	}
	return e, nil
}

// verdict is what becomes of a batch: it is removed, replaced, or stays.
type verdict struct {
	remove bool
	batch  []byte
	header recordbatch.Batch // of batch
}

// verdict decides about the batch data at offset base.
func (c *cleaning) verdict(data []byte, h *recordbatch.Batch, base int64) (verdict, error) {
	if h.Control() {
		return verdict{}, nil
	}
	if c.dropped(h, base) {
		return verdict{remove: true}, nil
	}
	horizon, has := h.DeleteHorizon()
	keep := func(r recordbatch.Record) bool {
		return r.Key != nil && c.keys.newest(r.Key) <= r.Offset && (r.Value != nil || !has || c.now < horizon)
	}
	gone, tombstones := 0, 0
	for r, err := range c.rewrite.Records(data, base) {
		switch {
		case err != nil:
			return verdict{}, err
		case !keep(r):
			gone++
		case r.Value == nil:
			tombstones++
		}
	}
	set := int64(-1)
	if tombstones > 0 {
		if !has {
			horizon = c.now + c.retention
			set = horizon
		}
		c.earliest = min(c.earliest, horizon)
	}
	if gone == 0 && set < 0 {
		return verdict{}, nil
	}
	w, err := c.rewrite.Rewrite(data, base, set, keep)
	if err != nil || w.Kept == 0 {
		return verdict{remove: err == nil}, err
	}
	if len(w.Batch) > c.largest && len(w.Batch) > len(data) {
		return verdict{}, fmt.Errorf("what is left of it would have %d bytes: the limit is %d", len(w.Batch), c.largest)
	}
	after, err := recordbatch.Parse(w.Batch)
	return verdict{batch: w.Batch, header: after}, err
}

package topic

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/internal/unpack"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// cleaning is step 3 of a compaction (see compact): a pass over the batches from the partition's
// start to limit. It goes upwards, one extent and one commit at a time. A commit removes batches of
// which nothing stays, replaces those of which a part stays, and replaces the extent.
//
// A tombstone is removed in two passes, as in Kafka. The first pass that finds it sets the delete
// horizon of its batch, now plus delete.retention.ms, so that consumers have this time to read it.
// A pass at or after the horizon removes it. No older record of the key can then reappear: the pass
// that set the horizon had the tombstone's offset in its map, and had removed all older records of
// the key before it came to the tombstone, but for batches that it could not decode (unreadable).
//
// A pass may be unable to rewrite a batch: what is left of it would be too large. If the batch has
// an older record of a tombstone's key (stuck), the pass sets no horizon, and nor does a later one,
// since the tombstone is not in the dirty range any more. So the tombstone stays until a newer
// record of the key supersedes it.
type cleaning struct {
	dirt
	keys      *offsetMap
	now       int64 // ms since 1970
	retention int64 // delete.retention.ms
	largest   int   // bytes of a batch, as stored, above which it may not grow

	earliest int64           // ms since 1970: the earliest delete horizon found or set, or noHorizon
	stuck    map[string]bool // keys of superseded records in batches that could not be rewritten; nil if none
	rewrite  recordbatch.Rewriter
}

// clean runs the pass and then stores limit as cleaned, and the earliest delete horizon.
func (p *partitionState) clean(ctx context.Context, c *cleaning) error {
	u := unpack.New(ctx, p.t.c.o.Memory)
	defer u.Release()
	c.rewrite.Room, c.rewrite.SkipHeaders = u.Room, true
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
	b.Durability = mainstem.OS // batches that a power cut brings back are compacted again
	return p.commitLocked(ctx, b, next)
}

// cleanStep cleans the first extent that ends above cursor, with one commit or none, and returns
// the offset at which it ends.
func (p *partitionState) cleanStep(ctx context.Context, c *cleaning, cursor int64) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadIndexLocked(ctx); err != nil {
		return 0, err
	}
	// After a reload, or when batches were appended, the index may end below the limit.
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

// mergeLocked merges extent i into the one before if both together are within the limits of one, so
// that the number of extents stays in proportion to the batches that are left.
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

// cleanExtent adds to b the removals and replacements of the batches of old that are below the
// limit. It returns the extent as it is after b.
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
			v, err := c.verdict(rec.Value, &h, base, int64(rec.Version))
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

// verdict is the result of a compaction for a batch: remove it, replace it by batch, or, if both
// are zero, leave it.
type verdict struct {
	remove bool
	batch  []byte
	header recordbatch.Batch // of batch
}

// verdict returns the verdict for the batch data of the offsets base up to next-1, with header h. It
// decodes the batch twice if records are to be removed: once to count, once to rewrite.
func (c *cleaning) verdict(data []byte, h *recordbatch.Batch, base, next int64) (verdict, error) {
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
	gone, tombstones, stuck := 0, 0, false
	for r, err := range c.rewrite.Records(data, base) {
		switch {
		case err != nil:
			return verdict{}, err
		case !keep(r):
			gone++
		case r.Value == nil:
			tombstones++
			stuck = stuck || c.stuck[string(r.Key)]
		}
	}
	set := int64(-1)
	switch {
	case tombstones == 0:
	case has:
		c.earliest = min(c.earliest, horizon)
	case next > c.from && !stuck: // it is dirty
		set = c.now + c.retention
		c.earliest = min(c.earliest, set)
	}
	if gone == 0 && set < 0 {
		return verdict{}, nil
	}
	v, err := c.replace(data, base, set, keep)
	if err != nil && !unpack.NoRoom(err) {
		err = errors.Join(err, c.stick(data, base))
	}
	return v, err
}

// replace returns the verdict for a batch of which only the records for which keep returns true
// stay, and which gets the delete horizon set if that is 0 or more.
func (c *cleaning) replace(data []byte, base, set int64, keep func(recordbatch.Record) bool) (verdict, error) {
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

// stick adds to stuck the keys of the superseded records of a batch that cannot be rewritten.
func (c *cleaning) stick(data []byte, base int64) error {
	for r, err := range c.rewrite.Records(data, base) {
		if err != nil {
			return err
		}
		if r.Key != nil && c.keys.newest(r.Key) > r.Offset {
			if c.stuck == nil {
				c.stuck = map[string]bool{}
			}
			c.stuck[string(r.Key)] = true
		}
	}
	return nil
}

package topic

import (
	"context"
	"math"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// ToEnd as an argument of [Topic.DeleteRecords] stands for the partition's end.
const ToEnd = -1

// DeleteRecords makes a partition start at offset before, which may be within a batch, and removes
// the batches that are wholly below it. [ToEnd] stands for the end of the partition at the call. It
// returns the new start, which is the old one if that was higher.
//
// The new start is stored, at the log's durability, in the same commit as the first removal. So no
// reader sees a partition with the old start but without the records, not even after a crash.
//
// It fails with Invalid for an offset beyond the end, with an [*OutOfRangeError] as its cause, and
// for a topic whose cleanup.policy does not contain delete. After another error the start may be
// stored; upkeep then removes the records.
func (t *Topic) DeleteRecords(ctx context.Context, partition int32, before int64) (int64, error) {
	const op = "delete records"
	p, err := t.partition(op, partition)
	if err != nil {
		return 0, err
	}
	if err := t.Deletable(); err != nil {
		return 0, err
	}
	end, err := p.readEnd(ctx)
	if err != nil {
		return 0, err
	}
	if before == ToEnd {
		before = end
	}
	if before < 0 || before > end {
		return 0, p.outOfRange(op, before, end)
	}
	if err := p.setStart(ctx, before, mainstem.DefaultDurability); err != nil {
		return 0, err
	}
	return p.start.Load(), nil
}

// Deletable returns nil if the topic's cleanup.policy contains delete, which [Topic.DeleteRecords]
// and retention need, else an Invalid error.
func (t *Topic) Deletable() error {
	if g := t.now(); !g.settings.delete {
		return t.fail(mainstem.KindInvalid, "delete records", badPolicy(g.config))
	}
	return nil
}

// setStart makes the partition start at offset start or later, and removes what is below, in these
// steps:
//
//  1. catchUp: the index reaches start and is stored.
//  2. The first commit of trimStep stores the new start and removes extents of up to the size of
//     one. An extent that has the start within it is replaced by one that begins at start.
//  3. Further commits remove the rest. Appends and other work of the partition can run in between.
//
// After step 2 readers see the new start. If the process ends before step 3 is done, the index
// begins below the stored start (residue), and the next upkeep goes on with step 3.
func (p *partitionState) setStart(ctx context.Context, start int64, d mainstem.Durability) error {
	if err := retry(func() error { return p.catchUp(ctx, start) }); err != nil {
		return err
	}
	for {
		var more bool
		err := retry(func() (err error) {
			more, err = p.trimStep(ctx, start, d)
			return err
		})
		if err != nil || !more {
			return err
		}
	}
}

// trimStep is one commit of setStart. It reports whether there is more to remove.
func (p *partitionState) trimStep(ctx context.Context, start int64, d mainstem.Durability) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadIndexLocked(ctx); err != nil {
		return false, err
	}
	next := p.index.state
	next.start = max(next.start, start)
	if next == p.index.state && !p.index.residue() {
		return false, nil
	}
	if err := p.extendToLocked(ctx, next.start); err != nil { // an index that was loaded again may be behind
		return false, err
	}
	b := mainstem.NewBatch()
	b.Durability = d
	if err := p.trimLocked(ctx, b, next.start); err != nil {
		return false, err
	}
	if err := p.commitLocked(ctx, b, next); err != nil {
		return false, err
	}
	return p.index.residue(), nil
}

// residue reports whether there is something to remove: the index begins below the partition's
// start.
func (ix *index) residue() bool {
	return len(ix.extents) > 0 && ix.extents[0].base < ix.state.start
}

// trimLocked removes extents below start, together about the size of one, from the index, and adds
// to b the removal of the extents and of their batches. If all that remain reach above start, it
// also replaces the extent that has start within it. A batch that has start within it stays.
func (p *partitionState) trimLocked(ctx context.Context, b *mainstem.Batch, start int64) error {
	sk := stateKey(p.t.id, p.num)
	forget := func(e extent) {
		b.Add(mainstem.Write{Op: mainstem.OpForget, Space: IndexSpace, Key: extentKey(sk, e.base)})
	}
	drop, bytes, cut := 0, int64(0), start
	for _, e := range p.index.extents {
		if e.next > start {
			break
		}
		if drop > 0 && bytes+e.bytes > p.index.limits.bytes || drop == int(p.index.limits.batches) {
			cut = e.base
			break
		}
		forget(e)
		bytes += e.bytes
		drop++
	}
	p.index.extents = slices.Delete(p.index.extents, 0, drop)
	if len(p.index.extents) > 0 {
		if e := p.index.extents[0]; e.base < start && start < e.next { // it has start within it: keep the rest
			rest, err := p.summarize(ctx, start, e.next)
			if err != nil {
				p.index = index{}
				return err
			}
			forget(e)
			p.index.extents[0] = rest
		}
	}
	if cut > 0 {
		b.Truncate(p.t.space, p.Key(), mainstem.Version(cut)+1)
	}
	return nil
}

// summarize returns the extent of the batches with offsets from base up to next-1, from the log.
func (p *partitionState) summarize(ctx context.Context, base, next int64) (extent, error) {
	e := newExtent(base, next)
	for rec, err := range p.batches(ctx, base) {
		if err != nil {
			return e, p.t.seen(err)
		}
		if int64(rec.First())-1 >= next {
			break
		}
		h, err := recordbatch.Parse(rec.Value)
		if err != nil {
			return e, p.corrupt(&rec, err)
		}
		e.add(p.t.c.glanceAt(&rec, &h, base))
	}
	return e, nil
}

// retain removes the batches that retention.ms and retention.bytes do not keep at time now, in
// milliseconds since 1970. If another process has compacted the partition since the index was
// loaded, the index counts too many bytes: then the first commit fails with Conflict, and the new
// start is determined again.
func (p *partitionState) retain(ctx context.Context, s *settings, now int64) error {
	const durability = mainstem.OS // records that a power cut brings back expire again
	err := retry(func() error {
		start, err := p.expiredTo(ctx, s, now)
		if err != nil {
			return err
		}
		if err := p.catchUp(ctx, start); err != nil {
			return err
		}
		_, err = p.trimStep(ctx, start, durability)
		return err
	})
	if err != nil {
		return err
	}
	return p.setStart(ctx, 0, durability) // removes the rest
}

// expiredTo returns the offset at which the partition should start. It skips batches from the front
// while the first one is older than oldest, by its newest timestamp, or the partition has
// retention.bytes without it. Whole extents are skipped by their summaries; only of the first one
// that stays are batches read. Nothing is read if the first batch is known to stay. The index has
// no residue.
func (p *partitionState) expiredTo(ctx context.Context, s *settings, now int64) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadIndexLocked(ctx); err != nil {
		return 0, err
	}
	oldest := int64(math.MinInt64)
	if s.retentionMs >= 0 {
		oldest = now - s.retentionMs
	}
	excess := int64(0)
	if s.retentionBytes >= 0 {
		excess = p.index.bytes() - s.retentionBytes
	}
	start := p.index.state.start
	if f := &p.index.front; start < f.next && f.time >= oldest && f.bytes > excess {
		return start, nil
	}
	for _, e := range p.index.extents {
		if e.newest < oldest || e.bytes <= excess && excess > 0 {
			start, excess = max(start, e.next), excess-e.bytes
			continue
		}
		return p.expiredInLocked(ctx, &e, start, oldest, excess)
	}
	return start, nil
}

// expiredInLocked is expiredTo for the first extent that is not skipped as a whole. It notes the
// first batch that stays in the index.
func (p *partitionState) expiredInLocked(ctx context.Context, e *extent, start, oldest, excess int64) (int64, error) {
	for rec, err := range p.batches(ctx, max(e.base, start)) {
		if err != nil {
			return 0, p.t.seen(err)
		}
		h, err := recordbatch.Parse(rec.Value)
		if err != nil {
			return 0, p.corrupt(&rec, err)
		}
		g := p.t.c.glanceAt(&rec, &h, start)
		if g.time >= oldest && g.bytes > excess {
			p.index.front = g
			break
		}
		start, excess = max(start, g.next), excess-g.bytes
	}
	return start, nil
}

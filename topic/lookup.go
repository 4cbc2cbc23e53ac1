package topic

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/internal/unpack"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// OffsetForTime returns the first record of a partition, by offset, whose timestamp is at or after
// at, rounded up to a millisecond; false if there is none. Timestamps need not be in order. It
// reads the batches that were appended since upkeep last ran, and decompresses those that may have
// the record, see [Options.Memory].
func (t *Topic) OffsetForTime(ctx context.Context, num int32, at time.Time) (partition.Found, bool, error) {
	p, err := t.partition("offset for time", num)
	if err != nil {
		return partition.Found{}, false, err
	}
	ms := at.UnixMilli()
	if at.After(time.UnixMilli(ms)) {
		ms++ // timestamps are whole milliseconds
	}
	if err := p.refresh(ctx); err != nil {
		return partition.Found{}, false, err
	}
	return p.firstAt(ctx, max(ms, 0))
}

// firstAt returns the first record with a timestamp of at least ms. It searches each extent that
// should have one, in order. An extent may have none, because its batches were removed since or the
// record is below the start; then the search goes on behind it.
func (p *partitionState) firstAt(ctx context.Context, ms int64) (partition.Found, bool, error) {
	for cursor := int64(0); ; {
		var at extent
		err := p.whole(ctx, func(ix *index) {
			cursor = max(cursor, ix.state.start)
			for _, e := range ix.extents[ix.find(cursor):] {
				if e.stamp >= ms {
					at = e
					return
				}
			}
		})
		if err != nil || at.next == 0 {
			return partition.Found{}, false, err
		}
		f, ok, err := p.firstIn(ctx, max(cursor, at.base), at.next, ms)
		if ok || err != nil {
			return f, ok, err
		}
		cursor = at.next
	}
}

// firstIn returns the first record with a timestamp of at least ms and an offset of at least from,
// in the batches that begin below to.
func (p *partitionState) firstIn(ctx context.Context, from, to, ms int64) (partition.Found, bool, error) {
	u := unpack.New(ctx, p.t.c.o.Memory)
	defer u.Release()
	d := recordbatch.Decoder{Room: u.Room, SkipHeaders: true}
	for rec, err := range p.batches(ctx, from) {
		if err != nil {
			return partition.Found{}, false, p.t.seen(err)
		}
		base := int64(rec.First()) - 1
		if base >= to {
			break
		}
		h, err := recordbatch.Parse(rec.Value)
		if err != nil {
			return partition.Found{}, false, p.corrupt(&rec, err)
		}
		if h.MaxTimestamp < ms {
			continue
		}
		f, ok, err := p.firstInBatch(&d, &rec, &h, from, ms)
		if ok || err != nil {
			return f, ok, err
		}
	}
	return partition.Found{}, false, nil
}

// firstInBatch is firstIn for one batch. If its records cannot be decoded, it returns the first
// offset with the batch's max timestamp.
func (p *partitionState) firstInBatch(d *recordbatch.Decoder, rec *mainstem.Record, h *recordbatch.Batch, from, ms int64) (partition.Found, bool, error) {
	base := int64(rec.First()) - 1
	if !recordbatch.Intact(rec.Value) {
		return partition.Found{}, false, p.corrupt(rec, errChecksum)
	}
	for r, err := range d.Records(rec.Value, base) {
		if unpack.NoRoom(err) {
			return partition.Found{}, false, err
		}
		if err != nil {
			return partition.Found{Offset: max(base, from), Time: time.UnixMilli(h.MaxTimestamp).UTC()}, true, nil
		}
		if r.Offset >= from && r.Timestamp >= ms {
			return partition.Found{Offset: r.Offset, Time: time.UnixMilli(r.Timestamp).UTC()}, true, nil
		}
	}
	return partition.Found{}, false, nil
}

// MaxTimestamp returns the first record, by offset, that has the newest timestamp of a partition;
// false if no record has one. It reads as [Topic.OffsetForTime] does.
func (t *Topic) MaxTimestamp(ctx context.Context, num int32) (partition.Found, bool, error) {
	p, err := t.partition("max timestamp", num)
	if err != nil {
		return partition.Found{}, false, err
	}
	if err := p.refresh(ctx); err != nil {
		return partition.Found{}, false, err
	}
	return p.firstNewest(ctx)
}

// firstNewest returns the first record that has the newest timestamp. It searches the first extent
// that should have it. If the record is not there, it corrects the extent and begins again.
func (p *partitionState) firstNewest(ctx context.Context) (partition.Found, bool, error) {
	for {
		at, from := newExtent(0, 0), int64(0)
		err := p.whole(ctx, func(ix *index) {
			from = ix.state.start
			for _, e := range ix.extents[ix.find(from):] {
				if e.stamp > at.stamp {
					at = e
				}
			}
		})
		if err != nil || at.stamp == recordbatch.NoTimestamp {
			return partition.Found{}, false, err
		}
		f, ok, err := p.firstIn(ctx, max(from, at.base), at.next, at.stamp)
		if ok || err != nil {
			return f, ok, err
		}
		if err := p.restamp(ctx, at.base); err != nil {
			return partition.Found{}, false, err
		}
	}
}

// restamp determines the newest timestamp of the extent that begins at base from its records. It
// may be older than in the index: a batch was removed since, the record is below the start, or a
// producer has sent a batch with a header that is newer than its records.
func (p *partitionState) restamp(ctx context.Context, base int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadIndexLocked(ctx); err != nil {
		return err
	}
	i := p.index.find(base)
	if i == len(p.index.extents) || p.index.extents[i].base != base {
		return nil // replaced meanwhile
	}
	e := p.index.extents[i]
	e.stamp, e.stamped, e.saved = recordbatch.NoTimestamp, 0, false
	from := max(base, p.index.state.start)
	for rec, err := range p.batches(ctx, from) {
		if err != nil {
			return p.t.seen(err)
		}
		first := int64(rec.First()) - 1
		if first >= e.next {
			break
		}
		h, err := recordbatch.Parse(rec.Value)
		if err != nil {
			return p.corrupt(&rec, err)
		}
		if h.MaxTimestamp <= e.stamp {
			continue
		}
		if stamp := p.t.c.newestFrom(rec.Value, first, from, h.MaxTimestamp); stamp > e.stamp {
			e.stamp, e.stamped = stamp, first
		}
	}
	p.index.extents[i] = e
	return nil
}

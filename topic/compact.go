package topic

import (
	"context"
	"math"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/internal/unpack"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Compact compacts every partition of a topic now, whatever its dirty ratio. It
// fails with Invalid if the topic's cleanup.policy does not contain compact.
//
// Of each key the newest record stays; older ones go, and so do records of
// aborted transactions and records without a key. Nothing is compacted from the newest
// batch on, from the first batch within min.compaction.lag.ms, or from the first
// batch of a transaction that is still open. Tombstones (null values) go by a
// later compaction, delete.retention.ms after the first that met them. Offsets
// never change. Transaction markers stay.
func (t *Topic) Compact(ctx context.Context) error {
	const op = "compact"
	if err := t.usable(op); err != nil {
		return err
	}
	g := t.now()
	if !g.settings.Compact {
		return t.fail(mainstem.KindInvalid, op, badPolicy(g.config))
	}
	for _, p := range g.parts {
		err := retry(func() error {
			if err := p.catchUp(ctx, math.MaxInt64); err != nil {
				return err
			}
			return p.compact(ctx, &g.settings, t.c.o.Now().UnixMilli(), true)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// compact compacts the partition if it is due at time now, in milliseconds, or
// forced. It ends with Conflict if another process changes the partition's index.
func (p *partitionState) compact(ctx context.Context, s *settings, now int64, forced bool) error {
	p.compacting.Lock()
	defer p.compacting.Unlock()
	if !forced {
		if due, err := p.compactionDue(ctx, s, now); err != nil || !due {
			return err
		}
	}
	for {
		d, err := p.findDirt(ctx, s, now)
		if err != nil || d.limit == d.from && now < d.horizon {
			return err
		}
		keys, more, err := p.mapKeys(ctx, &d)
		if err != nil {
			return err
		}
		err = p.clean(ctx, &cleaning{dirt: d, keys: keys, now: now, retention: s.deleteRetention, largest: p.t.c.o.MaxMessage})
		if err != nil || !more {
			return err
		}
	}
}

// compactionDue reports whether the partition is to be compacted, judging by the
// index alone but for the age of the first dirty batch.
func (p *partitionState) compactionDue(ctx context.Context, s *settings, now int64) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadIndexLocked(ctx); err != nil {
		return false, err
	}
	ix := &p.index
	from := max(ix.state.cleaned, ix.state.start)
	if ix.end() > from && float64(ix.bytesFrom(from)) > s.dirtyRatio*float64(ix.bytes()) || now >= ix.state.horizon {
		return true, nil
	}
	if s.maxLag == math.MaxInt64 {
		return false, nil
	}
	for rec, err := range p.batches(ctx, from) {
		if err != nil {
			return false, p.t.seen(err)
		}
		h, err := recordbatch.Parse(rec.Value)
		if err != nil {
			return false, p.corrupt(&rec, err)
		}
		return now-p.t.c.glanceAt(&rec, &h, 0).time > s.maxLag, nil
	}
	return false, nil
}

// bytesFrom estimates the bytes of the batches from offset on: of the extent that
// holds it, the share of offsets counts.
func (ix *index) bytesFrom(offset int64) (n int64) {
	for _, e := range ix.extents[ix.find(offset):] {
		if e.base < offset {
			n += int64(float64(e.bytes) * float64(e.next-offset) / float64(e.next-e.base))
			continue
		}
		n += e.bytes
	}
	return n
}

// dirt is what a compaction has to do: the offsets from from on, below limit,
// were not compacted yet.
type dirt struct {
	from, limit int64
	horizon     int64              // ms: the earliest delete horizon below from
	records     int64              // at most so many are there
	aborted     map[int64][]txnRun // by producer id
}

// txnRun is an aborted transaction: from its first batch to its marker.
type txnRun struct{ first, marker int64 }

// dropped reports whether the batch at base belongs to an aborted transaction.
func (d *dirt) dropped(h *recordbatch.Batch, base int64) bool {
	return h.Transactional() && !h.Control() && slices.ContainsFunc(d.aborted[h.ProducerID], func(r txnRun) bool {
		return r.first <= base && base < r.marker
	})
}

// findDirt looks at the headers from where the last compaction ended up to the
// end of the partition. It goes on beyond what may be compacted, because the
// marker of a transaction may be there.
func (p *partitionState) findDirt(ctx context.Context, s *settings, now int64) (dirt, error) {
	d, err := p.beginDirt(ctx)
	if err != nil {
		return d, err
	}
	newest, young := d.from, int64(math.MaxInt64)
	open := map[int64]int64{} // producer id to the first batch of its transaction
	for rec, err := range p.batches(ctx, d.from) {
		if err != nil {
			return d, p.t.seen(err)
		}
		h, err := recordbatch.Parse(rec.Value)
		if err != nil {
			return d, p.corrupt(&rec, err)
		}
		g := p.t.c.glanceAt(&rec, &h, 0)
		newest = max(g.base, d.from) // a batch may begin before from: see DeleteRecords
		if s.minLag > 0 && young == math.MaxInt64 && now-g.time < s.minLag {
			if young = newest; young == d.from {
				break
			}
		}
		if newest < young {
			d.records += int64(h.NumRecords)
		}
		d.follow(&h, g.base, open)
	}
	d.limit = min(newest, young)
	for _, first := range open {
		d.limit = min(d.limit, max(first, d.from))
	}
	return d, nil
}

// beginDirt returns where compaction has to begin.
func (p *partitionState) beginDirt(ctx context.Context) (dirt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadIndexLocked(ctx); err != nil {
		return dirt{}, err
	}
	st := &p.index.state
	return dirt{from: max(st.cleaned, st.start), horizon: st.horizon, aborted: map[int64][]txnRun{}}, nil
}

// follow keeps account of transactions.
func (d *dirt) follow(h *recordbatch.Batch, base int64, open map[int64]int64) {
	if !h.Transactional() {
		return
	}
	first, ok := open[h.ProducerID]
	if !h.Control() {
		if !ok {
			open[h.ProducerID] = base
		}
		return
	}
	commit, marker := h.Committed()
	if !marker || !ok {
		return
	}
	delete(open, h.ProducerID)
	if !commit {
		d.aborted[h.ProducerID] = append(d.aborted[h.ProducerID], txnRun{first, base})
	}
}

// mapKeys returns the newest offset of every key in d. If they do not fit in the
// memory allowed, it lowers d.limit and reports that there is more. One batch is
// taken however many keys it has.
func (p *partitionState) mapKeys(ctx context.Context, d *dirt) (*offsetMap, bool, error) {
	most := int64(p.t.c.o.CompactionBytes / slotBytes / 4 * 3)
	m := newOffsetMap(int(min(d.records, most)))
	u := unpack.New(ctx, p.t.c.o.Memory)
	defer u.Release()
	dec := recordbatch.Decoder{Room: u.Room}
	for rec, err := range p.batches(ctx, d.from) {
		if err != nil {
			return nil, false, p.t.seen(err)
		}
		base := int64(rec.First()) - 1
		if base >= d.limit {
			break
		}
		h, err := recordbatch.Parse(rec.Value)
		if err != nil {
			return nil, false, p.corrupt(&rec, err)
		}
		if h.Control() || d.dropped(&h, base) {
			continue
		}
		if m.full(int(h.NumRecords)) && base > d.from {
			d.limit = base
			return m, true, nil
		}
		for r, err := range dec.Records(rec.Value, base) {
			if unpack.NoRoom(err) {
				return nil, false, err
			}
			if err != nil {
				p.unreadable(base, err)
				break
			}
			if r.Key != nil {
				m.put(r.Key, r.Offset)
			}
		}
	}
	return m, false, nil
}

// unreadable notes a batch whose records cannot be decoded: a producer compressed
// garbage. Compaction leaves it as it is.
func (p *partitionState) unreadable(base int64, err error) {
	p.t.c.o.Logger.Warn("compaction leaves a batch as it is", "topic", p.t.name, "partition", p.num, "offset", base, "error", err)
}

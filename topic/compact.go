package topic

import (
	"context"
	"math"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/internal/unpack"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Compact compacts every partition of a topic now, whatever its dirty ratio. It fails with Invalid
// if the topic's cleanup.policy does not contain compact. It may run beside producers, consumers
// and upkeep; each partition is compacted once at a time.
//
// Of each key the newest record stays. Older ones are removed, and so are the records of aborted
// transactions and records without a key. Transaction markers stay, and so does a batch that cannot
// be decoded. Offsets never change. Not compacted are the newest batch of a partition, batches from
// the first one on that is younger than min.compaction.lag.ms, and batches from the first one on of
// a transaction that is still open. Tombstones (records with a null value) are removed by a later
// compaction, delete.retention.ms after the one that first found them. A tombstone stays while an
// older record of its key is in a batch that would grow beyond [Options.MaxMessage] without it.
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

// compact compacts the partition if it is forced or due at time now, in milliseconds. It fails with
// Conflict if another process changes the partition's index meanwhile.
//
// The dirty range of a partition is [from, limit): the batches that were not compacted yet and may
// be. One round has three steps:
//
//  1. findDirt reads the headers from the dirty range to the end of the partition. It finds the
//     limit and the aborted transactions.
//  2. mapKeys decodes the dirty range and maps each key to its newest offset there. If the map is
//     full, it lowers the limit, and another round follows this one.
//  3. clean goes over all batches below the limit, the clean ones too, and removes each record
//     that has an older offset than its key in the map. Then it stores limit as cleaned.
//
// The map need not have the keys below from: cleaned batches have each key once at most, so only a
// record of the dirty range can supersede another.
//
// Each commit removes only records that newer, committed records supersede, or that no reader may
// need any more. So a crash, or an error, between two commits leaves a partition that is correct
// but less compact, and the next compaction begins again with step 1.
//
// Invariant: cleaned is never above the first batch of an open transaction. So no batch of a
// transaction whose marker is at cleaned or later is below cleaned.
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

// compactionDue reports whether the partition is to be compacted. It is if the share of dirty bytes
// is above min.cleanable.dirty.ratio, if a tombstone may be removed, or if the first dirty batch is
// older than max.compaction.lag.ms. Only for the last it reads a batch.
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

// bytesFrom returns about the bytes of the batches from offset on. Of the extent that holds offset,
// it counts the share of the offsets.
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

// dirt is the dirty range of a partition, [from, limit).
type dirt struct {
	from, limit int64
	horizon     int64              // ms since 1970: as stored, see state
	records     int64              // in the range, or more
	aborted     map[int64][]txnRun // by producer ID
}

// txnRun is an aborted transaction: the base offsets of its first batch and of its marker.
type txnRun struct{ first, marker int64 }

// dropped reports whether the batch at offset base belongs to an aborted transaction.
func (d *dirt) dropped(h *recordbatch.Batch, base int64) bool {
	return h.Transactional() && !h.Control() && slices.ContainsFunc(d.aborted[h.ProducerID], func(r txnRun) bool {
		return r.first <= base && base < r.marker
	})
}

// findDirt returns the dirty range. The limit is the lowest of the base offsets of the newest
// batch, of the first batch that is younger than min.compaction.lag.ms, and of the first batches of
// open transactions. It reads headers up to the end of the partition, beyond the limit, because the
// marker of a transaction may be there.
func (p *partitionState) findDirt(ctx context.Context, s *settings, now int64) (dirt, error) {
	d, err := p.beginDirt(ctx)
	if err != nil {
		return d, err
	}
	newest, young := d.from, int64(math.MaxInt64)
	open := map[int64]int64{} // by producer ID, the base offset of its open transaction
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

// beginDirt returns an empty dirty range, which begins where the last compaction ended.
func (p *partitionState) beginDirt(ctx context.Context) (dirt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadIndexLocked(ctx); err != nil {
		return dirt{}, err
	}
	st := &p.index.state
	return dirt{from: max(st.cleaned, st.start), horizon: st.horizon, aborted: map[int64][]txnRun{}}, nil
}

// follow records the batch at offset base, with header h, in the state of transactions: open has
// those without a marker yet.
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

// mapKeys returns a map of the keys in d to their newest offsets. Markers, batches of aborted
// transactions and batches that cannot be decoded do not count. If the keys of a batch might not
// fit in Options.CompactionBytes, it sets d.limit to that batch and returns more = true. The first
// batch is always taken, so each round makes progress.
func (p *partitionState) mapKeys(ctx context.Context, d *dirt) (*offsetMap, bool, error) {
	most := int64(p.t.c.o.CompactionBytes / slotBytes / 4 * 3)
	m := newOffsetMap(int(min(d.records, most)))
	u := unpack.New(ctx, p.t.c.o.Memory)
	defer u.Release()
	dec := recordbatch.Decoder{Room: u.Room, SkipHeaders: true}
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

// unreadable logs a batch that cannot be decoded or rewritten, which compaction leaves as it is. A
// batch may be stored and not be decodable if a version stored it that did not check compressed
// records.
func (p *partitionState) unreadable(base int64, err error) {
	p.t.c.o.Logger.Warn("compaction leaves a batch as it is", "topic", p.t.name, "partition", p.num, "offset", base, "error", err)
}

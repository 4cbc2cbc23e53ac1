package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// extentLimits say when an extent is closed. It is the unit of what upkeep
// removes or rewrites in one step, and of what a lookup by time reads.
type extentLimits struct {
	bytes, batches int64
}

var defaultExtentLimits = extentLimits{bytes: 4 << 20, batches: 1024}

// extendBytes bounds what one step of indexing reads.
const extendBytes = 16 << 20

// index is what a partition knows about its batches. It is loaded when it is
// first needed, grows as batches are looked at, and is saved by upkeep, so that a
// batch is looked at once and not again after a restart.
//
// Invariant: extents are contiguous: each begins where the one before it ends.
// Invariant: every change of the index space under the partition's keys replaces
// the state record, whose version is a condition: what is here is what is stored.
type index struct {
	loaded  bool
	limits  extentLimits
	state   state
	version mainstem.Version // of the state record, 0 if there is none yet
	extents []extent
	front   glance // the first batch, if retention has looked at it
}

// end returns the offset up to which batches have been looked at.
func (ix *index) end() int64 {
	if n := len(ix.extents); n > 0 {
		return ix.extents[n-1].next
	}
	return 0
}

func (ix *index) bytes() (n int64) {
	for i := range ix.extents {
		n += ix.extents[i].bytes
	}
	return n
}

// find returns the number of the first extent that ends above offset.
func (ix *index) find(offset int64) int {
	i, _ := slices.BinarySearchFunc(ix.extents, offset, func(e extent, o int64) int {
		if e.next <= o {
			return -1
		}
		return 1
	})
	return i
}

// glance is what the index notes about one record batch.
type glance struct {
	base, next, bytes int64
	time              int64 // ms: the newest timestamp, or when it was committed if it has none
	stamp             int64 // ms: the newest timestamp, or NoTimestamp
}

// glanceAt looks at a record's batch. Records below offset start do not count for
// the stamp.
func (c *Catalog) glanceAt(rec *mainstem.Record, h *recordbatch.Batch, start int64) glance {
	g := glance{base: int64(rec.First()) - 1, next: int64(rec.Version), bytes: int64(len(rec.Value)), time: h.MaxTimestamp, stamp: h.MaxTimestamp}
	if g.stamp == recordbatch.NoTimestamp {
		g.time = rec.Time.UnixMilli()
	}
	if g.base < start && start < g.next {
		g.stamp = c.newestFrom(rec.Value, g.base, start, g.stamp)
	}
	return g
}

// newestFrom returns the newest timestamp of the records of a batch from offset
// start on; otherwise if they cannot be decoded.
func (c *Catalog) newestFrom(data []byte, base, start, otherwise int64) int64 {
	newest := int64(recordbatch.NoTimestamp)
	// Who asks may have memory for decompressing already, and so must not wait for more:
	// this takes it in any case, one batch at a time.
	c.glancing.Lock()
	defer c.glancing.Unlock()
	hold := c.o.Memory.Hold()
	defer hold.Release()
	d := recordbatch.Decoder{Room: func(n int) error { hold.Take(int64(n) - hold.Size()); return nil }}
	for r, err := range d.Records(data, base) {
		if err != nil {
			return otherwise
		}
		if r.Offset >= start {
			newest = max(newest, r.Timestamp)
		}
	}
	return newest
}

// newExtent returns an extent without batches.
func newExtent(base, next int64) extent {
	return extent{base: base, next: next, newest: recordbatch.NoTimestamp, stamp: recordbatch.NoTimestamp}
}

// add counts in a batch.
func (e *extent) add(g glance) {
	e.bytes += g.bytes
	e.batches++
	e.newest = max(e.newest, g.time)
	if g.stamp > e.stamp {
		e.stamp, e.stamped = g.stamp, g.base
	}
	e.saved = false
}

func (l extentLimits) reached(e *extent) bool { return e.bytes >= l.bytes || e.batches >= l.batches }

// append counts in the batch that follows what is there.
func (ix *index) append(g glance) {
	n := len(ix.extents)
	if n == 0 {
		ix.extents = append(ix.extents, newExtent(min(g.base, ix.state.start), 0))
	} else if ix.limits.reached(&ix.extents[n-1]) {
		ix.extents = append(ix.extents, newExtent(ix.extents[n-1].next, 0))
	}
	e := &ix.extents[len(ix.extents)-1]
	e.next = g.next
	e.add(g)
}

// loadIndexLocked reads what is stored about the partition.
func (p *partitionState) loadIndexLocked(ctx context.Context) error {
	if p.index.loaded {
		return nil
	}
	ix := index{loaded: true, limits: p.t.c.extents, state: state{horizon: noHorizon}}
	sk := stateKey(p.t.id, p.num)
	for rec, err := range p.t.c.log.Scan(ctx, IndexSpace, mainstem.Range{Prefix: sk}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break // nothing was ever stored
		}
		if err != nil {
			return err
		}
		if err := ix.load(&rec, len(sk)); err != nil {
			return corruptIndex(slices.Clone(rec.Key), err)
		}
	}
	p.index = ix
	raise(&p.start, ix.state.start)
	return nil
}

// load takes over a record of the index space; prefix is the length of a state's key.
func (ix *index) load(rec *mainstem.Record, prefix int) (err error) {
	if len(rec.Key) == prefix {
		ix.version = rec.Version
		ix.state, err = decodeState(rec.Value)
		return err
	}
	base, err := extentBase(rec.Key, prefix)
	if err != nil {
		return err
	}
	e, err := decodeExtent(base, rec.Value)
	if err != nil {
		return err
	}
	if n := len(ix.extents); n > 0 && ix.extents[n-1].next != base {
		return fmt.Errorf("the extent at offset %d follows one that ends at %d", base, ix.extents[n-1].next)
	}
	ix.extents = append(ix.extents, e)
	return nil
}

// extendLocked looks at batches that are not in the index yet, at most budget
// bytes of them. It reports whether it reached the end.
func (p *partitionState) extendLocked(ctx context.Context, budget int64) (bool, error) {
	for rec, err := range p.batches(ctx, p.index.end()) {
		if err != nil {
			return false, p.t.seen(err)
		}
		h, err := recordbatch.Parse(rec.Value)
		if err != nil {
			return false, p.corrupt(&rec, err)
		}
		g := p.t.c.glanceAt(&rec, &h, p.index.state.start)
		p.index.append(g)
		if budget -= g.bytes; budget <= 0 {
			return false, nil
		}
	}
	return true, nil
}

// extendToLocked makes sure that the index reaches offset, unless the partition
// ends or was trimmed before.
func (p *partitionState) extendToLocked(ctx context.Context, offset int64) error {
	for p.index.end() < offset {
		if done, err := p.extendLocked(ctx, extendBytes); done || err != nil {
			return err
		}
	}
	return nil
}

// whole brings the index up to the end of the partition, in memory, and calls f
// with the lock held.
func (p *partitionState) whole(ctx context.Context, f func(*index)) error {
	for {
		done, err := p.wholeStep(ctx, f)
		if done || err != nil {
			return err
		}
	}
}

func (p *partitionState) wholeStep(ctx context.Context, f func(*index)) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadIndexLocked(ctx); err != nil {
		return false, err
	}
	done, err := p.extendLocked(ctx, extendBytes)
	if done && err == nil {
		f(&p.index)
	}
	return done, err
}

// size returns the bytes of the partition's batches.
func (p *partitionState) size(ctx context.Context) (n int64, err error) {
	err = p.whole(ctx, func(ix *index) { n = ix.bytes() })
	return n, err
}

// catchUp brings the index up to offset until, or to the end, and saves it.
func (p *partitionState) catchUp(ctx context.Context, until int64) error {
	for {
		done, err := p.catchUpStep(ctx, until)
		if done || err != nil {
			return err
		}
	}
}

func (p *partitionState) catchUpStep(ctx context.Context, until int64) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.loadIndexLocked(ctx); err != nil {
		return false, err
	}
	done := p.index.end() >= until
	if !done {
		var err error
		if done, err = p.extendLocked(ctx, extendBytes); err != nil {
			return false, err
		}
	}
	if p.index.saved() {
		return done, nil
	}
	b := mainstem.NewBatch()
	b.Durability = mainstem.OS // a lost index is built anew
	err := p.commitLocked(ctx, b, p.index.state)
	return done && p.index.saved(), err
}

func (ix *index) saved() bool {
	return !slices.ContainsFunc(ix.extents, func(e extent) bool { return !e.saved })
}

// saveStep is how many extents one commit saves.
const saveStep = 1000

// commitLocked commits b together with the partition's new state and the first
// saveStep extents that are not saved, if nobody else has changed the partition's
// index meanwhile: else it fails with Conflict. After any error the index is
// loaded anew.
func (p *partitionState) commitLocked(ctx context.Context, b *mainstem.Batch, next state) error {
	t, sk := p.t, stateKey(p.t.id, p.num)
	b.Ensure(IndexSpace, indexPolicy)
	b.IfExists(t.space, t.idKey)
	if p.index.version == 0 {
		b.IfAbsent(IndexSpace, sk)
	} else {
		b.IfVersion(IndexSpace, sk, p.index.version)
	}
	saved := 0
	for i := range p.index.extents {
		if e := &p.index.extents[i]; !e.saved && saved < saveStep {
			b.Put(IndexSpace, extentKey(sk, e.base), e.encode())
			e.saved = true
			saved++
		}
	}
	b.Put(IndexSpace, sk, next.encode())
	r, err := t.c.log.Commit(ctx, b)
	if err != nil {
		p.index = index{}
		return t.changed(err)
	}
	p.index.state, p.index.version = next, r.Versions[b.Len()-1]
	raise(&p.start, next.start)
	return nil
}

// changed is like seen for commits on condition that the topic is there.
func (t *Topic) changed(err error) error {
	var e *mainstem.Error
	if errors.As(err, &e) && e.Kind == mainstem.KindConflict && string(e.Want.Key) == string(t.idKey) {
		t.retire()
		return notFound(e.Op, t.name)
	}
	return t.seen(err)
}

// retry runs f again as long as somebody else, in another process, is changing
// the same partition.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
	}
}

package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// extentLimits are the size from which an extent takes no more batches. An extent is the unit of
// work: upkeep removes or rewrites about one extent in a commit, and a lookup by time reads one.
type extentLimits struct {
	bytes, batches int64
}

var defaultExtentLimits = extentLimits{bytes: 4 << 20, batches: 1024}

// extendBytes is about how many bytes of batches one step of indexing reads, with the partition's
// lock held.
const extendBytes = 16 << 20

// index summarizes the batches of one partition: extents, in the order of offsets, up to an offset
// that may be behind the partition's end, and the stored state. Retention, compaction and lookups
// by time use it in place of reading the partition. An append does not touch it.
//
//  1. It is loaded from the index space when it is first needed, and after an error of a commit.
//  2. extendLocked reads the batches behind its end and counts each in the last extent, or in a
//     new one if the last has reached its limits.
//  3. Upkeep stores the changed extents (catchUp), so that each batch is read once, and not again
//     after a restart. A partition of which nothing is stored is read from the beginning.
//  4. Retention and DeleteRecords remove extents from the front (trim.go). Compaction replaces
//     them (clean.go).
//
// The index in memory may be ahead of the stored one: an extent with saved false is stored later.
// If another process has removed or rewritten batches, the next commit fails with Conflict, and
// the index is loaded again. Until then the extents may count batches that are gone. Lookups and
// size call refresh first, since a catalog without upkeep has no such commits.
//
// Invariant: extents are contiguous. Each begins at the offset at which the one before it ends.
// Invariant: each commit that changes a partition's keys in the index space also replaces its state
// record, and has the version of that record as a condition. So while these commits succeed, state
// and the saved extents are as stored, whatever other processes do.
//
// All fields are under the mu of the partition.
type index struct {
	loaded  bool             // else the other fields are zero
	limits  extentLimits     // constant while loaded
	state   state            // as stored
	version mainstem.Version // of the state record; 0 if there is none yet
	extents []extent         // by base
	front   glance           // the first batch that retention found too new to remove; zero if not known
}

// end returns the offset up to which the index has the batches.
func (ix *index) end() int64 {
	if n := len(ix.extents); n > 0 {
		return ix.extents[n-1].next
	}
	return 0
}

// bytes returns the bytes of all batches in the index.
func (ix *index) bytes() (n int64) {
	for i := range ix.extents {
		n += ix.extents[i].bytes
	}
	return n
}

// find returns the number of the first extent that ends above offset, or len(extents).
func (ix *index) find(offset int64) int {
	i, _ := slices.BinarySearchFunc(ix.extents, offset, func(e extent, o int64) int {
		if e.next <= o {
			return -1
		}
		return 1
	})
	return i
}

// glance is the entry of one batch in the index. It has the offsets from base up to next-1.
type glance struct {
	base, next, bytes int64 // bytes as stored
	time              int64 // ms since 1970: the max timestamp, or if there is none, the commit time
	stamp             int64 // ms since 1970: the newest of the records that may be read, or NoTimestamp
}

// glanceAt returns the glance of a stored batch with header h. Records below the offset start do
// not count for its stamp; if there are some, the batch is decompressed.
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

// newestFrom returns the newest timestamp of the records of a batch from offset start on, or
// otherwise if the batch cannot be decoded. base is the offset of its first record.
func (c *Catalog) newestFrom(data []byte, base, start, otherwise int64) int64 {
	newest := int64(recordbatch.NoTimestamp)
	// The caller may have a reservation of Memory already, so it must not wait for a second one
	// (see package budget). So the bytes are taken without waiting, for one batch at a time.
	c.glancing.Lock()
	defer c.glancing.Unlock()
	hold := c.o.Memory.Hold()
	defer hold.Release()
	d := recordbatch.Decoder{SkipHeaders: true, Room: func(n int) error { hold.Take(int64(n) - hold.Size()); return nil }}
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

// newExtent returns an extent of the offsets from base up to next-1, without batches.
func newExtent(base, next int64) extent {
	return extent{base: base, next: next, newest: recordbatch.NoTimestamp, stamp: recordbatch.NoTimestamp}
}

// add counts a batch in the extent.
func (e *extent) add(g glance) {
	e.bytes += g.bytes
	e.batches++
	e.newest = max(e.newest, g.time)
	if g.stamp > e.stamp {
		e.stamp, e.stamped = g.stamp, g.base
	}
	e.saved = false
}

// reached reports whether e takes no more batches.
func (l extentLimits) reached(e *extent) bool { return e.bytes >= l.bytes || e.batches >= l.batches }

// append counts the batch behind the end of the index.
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

// loadIndexLocked reads the index as it is stored, unless it is loaded.
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

// refresh drops the index if another process has changed the stored one since it was loaded.
func (p *partitionState) refresh(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.index.loaded {
		return nil
	}
	rec, err := p.t.c.log.Get(ctx, IndexSpace, stateKey(p.t.id, p.num))
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return err
	}
	if rec.Version != p.index.version { // both are 0 if nothing is stored
		p.index = index{}
	}
	return nil
}

// load adds a record of the index space. prefix is the length of a state's key.
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

// extendLocked adds the batches behind the end of the index, in memory. It stops after the batch
// with which it has read budget bytes. It reports whether it reached the end of the partition.
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

// extendToLocked extends the index, in memory, until it reaches offset or the end of the partition.
func (p *partitionState) extendToLocked(ctx context.Context, offset int64) error {
	for p.index.end() < offset {
		if done, err := p.extendLocked(ctx, extendBytes); done || err != nil {
			return err
		}
	}
	return nil
}

// whole extends the index, in memory, to the end of the partition and then calls f with the lock
// held. It releases the lock between steps.
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

// size returns the bytes of the partition's batches, as stored.
func (p *partitionState) size(ctx context.Context) (n int64, err error) {
	if err := p.refresh(ctx); err != nil {
		return 0, err
	}
	err = p.whole(ctx, func(ix *index) { n = ix.bytes() })
	return n, err
}

// catchUp extends the index to the offset until, or to the end of the partition, and stores it.
func (p *partitionState) catchUp(ctx context.Context, until int64) error {
	for {
		done, err := p.catchUpStep(ctx, until)
		if done || err != nil {
			return err
		}
	}
}

// catchUpStep is one step of catchUp, with one commit. It reports whether it was the last one.
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
	b.Durability = mainstem.OS // extents that a power cut takes away are built again
	err := p.commitLocked(ctx, b, p.index.state)
	return done && p.index.saved(), err
}

// saved reports whether every extent is stored as it is here.
func (ix *index) saved() bool {
	return !slices.ContainsFunc(ix.extents, func(e extent) bool { return !e.saved })
}

// saveStep is how many extents one commit stores.
const saveStep = 1000

// commitLocked commits b together with the state next and the first saveStep extents that are not
// saved. The commit has two conditions: the topic exists, and no other process has changed the
// partition's index. If the second fails, the error is a Conflict; if the first, NotFound, and the
// handle is retired. The caller has changed p.index.extents already, so after any error the index
// is dropped and will be loaded again.
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

// changed is seen for commits with the condition that the topic exists: if that has failed, it
// retires the handle and returns NotFound.
func (t *Topic) changed(err error) error {
	var e *mainstem.Error
	if errors.As(err, &e) && e.Kind == mainstem.KindConflict && string(e.Want.Key) == string(t.idKey) {
		t.retire()
		return notFound(e.Op, t.name)
	}
	return t.seen(err)
}

// retry calls f until its error is not a Conflict. A Conflict means that another process has
// changed the index of the same partition.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
	}
}

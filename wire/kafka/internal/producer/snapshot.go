package producer

import (
	"context"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// A snapshot saves the producers of a partition, so that recovery need not read all its batches. It
// is incremental: it stores the producers that have changed (savedState.dirty), deletes those that
// have expired, adds a run of aborted transactions, and moves the head. It is part of the commit of
// an append (ride), or of a commit of its own in upkeep (save).
//
// The new head is the greatest offset at which recovery may begin:
//
//   - at most known, the end of the partition;
//   - at most the bound of every ticket: the commits under way write batches that no stored state
//     includes;
//   - the old head, if there are more dirty producers than one snapshot stores.
//
// A snapshot takes its contents out of savedState when it is made. If its commit fails, endLocked
// puts them back.
//
// Invariant: at most one snapshot of a partition is being committed (savedState.saving). So an
// older state never overwrites a newer one.

// maxSnapshot is the most producers that one snapshot stores, and the most that it deletes.
const maxSnapshot = 10_000

// snapshot is a snapshot in a commit, or the first head of a partition in one. The stored state of
// a producer may be newer than the head: recovery passes over the batches that the state includes.
type snapshot struct {
	p       *partitionState
	head    int64       // the new head
	dirty   []*producer // that it stores
	expired []int64     // ids of producers that it deletes
	aborted []Aborted   // that it stores
	run     int64       // the offset in the key of aborted; -1: there are none
	batches int         // savedState.batches before
	whole   bool        // it is a snapshot; else the first head alone
}

// duesLocked reports whether rideLocked may have something to add.
func (p *partitionState) duesLocked() bool {
	return !p.stored || p.saved.batches >= p.m.o.SnapshotEvery
}

// rideLocked adds to b, the commit of an append, the first head of the partition, or a snapshot if
// there were enough batches since the last. It returns nil if neither is due. The caller calls
// endLocked after the commit.
func (p *partitionState) rideLocked(b *mainstem.Batch) *snapshot {
	if !p.stored {
		b.Ensure(Space, spacePolicy)
		b.Put(Space, headKey(p.place), encodeOffset(p.head))
		return &snapshot{p: p, head: p.head, run: -1}
	}
	if !p.loaded || !p.duesLocked() || p.saved.saving { // a dropped partition has nothing to save
		return nil
	}
	return p.snapshotLocked(b)
}

// ride is rideLocked for a ticket. It takes the lock of the partition only if something may be due.
func (k *ticket) ride(b *mainstem.Batch) *snapshot {
	if !k.rides {
		return nil
	}
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	return k.p.rideLocked(b)
}

// snapshotLocked adds a snapshot to b. The caller calls endLocked after the commit.
func (p *partitionState) snapshotLocked(b *mainstem.Batch) *snapshot {
	s := &snapshot{p: p, head: p.known, run: -1, whole: true}
	for _, k := range p.tickets {
		s.head = min(s.head, k.bound)
	}
	b.Ensure(Space, spacePolicy)
	n := min(len(p.saved.dirty), maxSnapshot)
	if n < len(p.saved.dirty) {
		s.head = p.head // some producers are not stored
	}
	s.dirty = slices.Clone(p.saved.dirty[:n])
	p.saved.dirty = slices.Delete(p.saved.dirty, 0, n)
	for _, e := range s.dirty {
		e.dirty = false
		if e.epoch >= 0 && p.producers[e.pid] == e {
			b.Put(Space, partKey(p.place, producerPart, e.pid), e.encode())
		}
	}
	for pid := range p.saved.expired {
		if len(s.expired) == maxSnapshot {
			break
		}
		s.expired = append(s.expired, pid)
		delete(p.saved.expired, pid)
		if p.producers[pid] == nil {
			b.Delete(Space, partKey(p.place, producerPart, pid))
		}
	}
	if s.aborted = p.saved.aborted; len(s.aborted) > 0 {
		s.run = slices.MaxFunc(s.aborted, func(a, b Aborted) int { return byLast(a, b.Last) }).Last
		b.Put(Space, partKey(p.place, abortedPart, s.run), encodeAborted(s.aborted))
	}
	b.Put(Space, headKey(p.place), encodeOffset(s.head))
	s.batches, p.saved.batches, p.saved.aborted, p.saved.saving = p.saved.batches, 0, nil, true
	return s
}

// endLocked ends the snapshot after its commit has succeeded, or failed with any outcome.
func (s *snapshot) endLocked(committed bool) {
	p, of := s.p, &s.p.saved
	if s.whole {
		of.saving = false
		p.left.Broadcast()
	}
	if committed {
		p.stored, p.head = true, max(p.head, s.head)
		if s.run >= 0 {
			of.runs = append(of.runs, s.run)
		}
		return
	}
	of.batches += s.batches
	of.aborted = append(s.aborted, of.aborted...)
	for _, e := range s.dirty {
		if !e.dirty {
			e.dirty = true
			of.dirty = append(of.dirty, e)
		}
	}
	for _, pid := range s.expired {
		of.expired[pid] = struct{}{}
	}
}

// save commits a snapshot if there is something to save. It expires producers without a batch or
// marker since oldest (in ms), and drops transactions that were aborted below the start of the
// partition. It fails with NotFound if the topic was deleted.
func (p *partitionState) save(ctx context.Context, oldest int64) error {
	p.mu.Lock()
	t, tracked := p.t, p.loaded && p.stored
	p.mu.Unlock()
	start, err := t.Start(ctx, p.num)
	if err != nil || !tracked {
		return err
	}
	end, err := t.End(ctx, p.num)
	if err != nil {
		return err
	}
	b := mainstem.NewBatch()
	b.Durability = mainstem.OS // if it is lost, recovery reads more batches
	s := p.prepare(b, end, start, oldest)
	if s == nil {
		return nil
	}
	_, err = p.m.log.Commit(ctx, b)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.endLocked(err == nil)
	return err
}

// prepare makes the snapshot of save, nil if there is nothing to save.
func (p *partitionState) prepare(b *mainstem.Batch, end, start, oldest int64) *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded || !p.stored || p.saved.saving {
		return nil
	}
	p.known = max(p.known, end)
	p.expireLocked(oldest)
	runs := p.trimLocked(b, start)
	far := p.known-p.head > int64(p.m.o.SnapshotEvery) // many records without a producer id were appended
	if len(p.saved.dirty) == 0 && len(p.saved.expired) == 0 && len(p.saved.aborted) == 0 && runs == 0 && !far {
		return nil
	}
	return p.snapshotLocked(b)
}

// expireLocked removes producers without a batch or marker since oldest (in ms), unless a
// transaction of theirs is open or a request uses them. The next snapshot deletes their records.
func (p *partitionState) expireLocked(oldest int64) {
	for pid, e := range p.producers {
		if e.refs == 0 && e.first < 0 && e.time < oldest {
			delete(p.producers, pid)
			p.saved.expired[pid] = struct{}{}
		}
	}
}

// trimLocked removes the transactions that were aborted below start, and adds to b the deletion of
// their runs. It returns the number of those. A run whose deletion fails remains until the topic is
// deleted, or the partition is loaded and trimmed again.
func (p *partitionState) trimLocked(b *mainstem.Batch, start int64) (runs int) {
	i, _ := slices.BinarySearchFunc(p.aborted, start, byLast)
	p.aborted = slices.Delete(p.aborted, 0, i)
	p.saved.aborted = slices.DeleteFunc(p.saved.aborted, func(a Aborted) bool { return a.Last < start })
	p.saved.runs = slices.DeleteFunc(p.saved.runs, func(at int64) bool {
		if at < start {
			b.Delete(Space, partKey(p.place, abortedPart, at))
			runs++
		}
		return at < start
	})
	return runs
}

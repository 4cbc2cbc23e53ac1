package producer

import (
	"context"
	"math"
	"sync"

	"github.com/mainstemdev/mainstem/internal/invariants"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// partitionState is the producers of one partition in memory.
//
//	             first use                commit with an unknown outcome
//	not loaded ────────────▶ loaded ─────────────────────────────────────▶ not loaded
//
// A request appends to a partition, a batch or a marker, in these steps:
//
//  1. enter loads the partition, and takes a ticket for the producer. That locks the producer, so
//     batches of one producer follow one another, and those of others need not wait.
//  2. For the first batch of a transaction, hold sets a bound for the last stable offset, before
//     the commit: a reader must not read past a transaction that the commit is about to begin.
//  3. The caller commits. A snapshot may be part of the commit (snapshot.go).
//  4. leave changes the state if the commit has succeeded, drops it if the outcome is unknown, and
//     gives the ticket back.
//
// Lock order: transaction.mu, then the tickets of partitions in the order of their places, then
// partitionState.mu. A ticket holds producer.mu. partitionState.mu is held while the partition is
// read from the log, but not over commits.
//
// Invariant: head is at most the base offset of every batch with a producer id that the stored
// states of the producers do not include.
//
// Invariant: while the partition is not loaded, no new ticket is taken. It is loaded only when all
// have been given back: then the log has the batches of all commits that were under way.
type partitionState struct {
	m *Manager
	place

	mu        sync.Mutex             // guards everything below
	left      sync.Cond              // signalled when the last ticket is given back, and when a snapshot is ended
	t         *topic.Topic           // as of the last load
	loaded    bool                   // the fields below are valid
	stored    bool                   // there is a head in the log
	head      int64                  // the head in the log; unless stored, that which the first commit writes
	known     int64                  // a lower bound of the end of the partition
	producers map[int64]*producer    // by producer id
	open      map[*producer]struct{} // those with first or bound set
	aborted   []Aborted              // in the order of Last
	tickets   []*ticket              // all that are taken, or wait for the producer

	saved savedState
}

// savedState is the difference between the memory and the log. The lock of the partition guards it.
type savedState struct {
	batches int                // number of batches and markers since the last snapshot
	dirty   []*producer        // changed since it was last stored; see producer.dirty
	expired map[int64]struct{} // ids of producers whose records are to be deleted
	aborted []Aborted          // not stored yet
	runs    []int64            // the stored runs of aborted transactions, by the offset in their keys
	saving  bool               // the commit of a snapshot is under way; there is one at a time
}

// ticket is the right to append as one producer to one partition. The zero ticket
// is of no partition.
type ticket struct {
	p     *partitionState
	e     *producer // its mu is held
	bound int64     // a lower bound of the offset of the append; no head may be above it meanwhile
	at    int       // the index in p.tickets; under the lock of the partition
	rides bool      // the commit may have to include a head or a snapshot
}

// partition returns the state of partition num of t. It need not be loaded.
func (m *Manager) partition(t *topic.Topic, num int32) *partitionState {
	at := place{t.ID(), num}
	m.parts.RLock()
	p := m.parts.of[at]
	m.parts.RUnlock()
	if p != nil {
		return p
	}
	m.parts.Lock()
	defer m.parts.Unlock()
	if p = m.parts.of[at]; p == nil {
		p = &partitionState{m: m, place: at, t: t}
		p.left.L = &p.mu
		m.parts.of[at] = p
	}
	return p
}

// enter makes k a ticket for the producer pid. It loads the partition if necessary, and waits until
// the producer has no other ticket. ctx ends only the reads of the load, not the waiting.
func (p *partitionState) enter(ctx context.Context, k *ticket, t *topic.Topic, pid int64) error {
	for {
		p.mu.Lock()
		if err := p.loadLocked(ctx, t); err != nil {
			p.mu.Unlock()
			return err
		}
		e := p.producers[pid]
		if e == nil {
			e = newProducer(pid)
			p.producers[pid] = e
		}
		e.refs++
		*k = ticket{p: p, e: e, bound: p.known, at: len(p.tickets), rides: p.duesLocked()}
		p.tickets = append(p.tickets, k)
		ours := e.mu.TryLock()
		p.mu.Unlock()
		if ours {
			return nil
		}
		e.mu.Lock()
		p.mu.Lock()
		ours = p.producers[pid] == e
		p.mu.Unlock()
		if ours {
			return nil
		}
		k.leave(nil) // the partition was dropped meanwhile
	}
}

// leave gives the ticket back. Before, it calls f, if it is not nil, with the lock of the partition
// held, to change the state. It calls OnStable if the last stable offset has risen.
func (k *ticket) leave(f func()) {
	p := k.p
	p.mu.Lock()
	before := p.firstOpenLocked()
	if f != nil {
		f()
	}
	k.e.bound = -1
	if p.producers[k.e.pid] == k.e { // else the partition was dropped
		p.reopenLocked(k.e)
	}
	moved := p.firstOpenLocked() > before
	if k.e.refs--; k.e.refs == 0 && k.e.epoch < 0 && p.producers[k.e.pid] == k.e {
		delete(p.producers, k.e.pid)
	}
	invariants.Check(p.tickets[k.at] == k, "a ticket of %v was given back twice", p.place)
	last := len(p.tickets) - 1
	p.tickets[k.at] = p.tickets[last]
	p.tickets[k.at].at = k.at
	p.tickets[last] = nil
	if p.tickets = p.tickets[:last]; last == 0 {
		p.left.Broadcast()
	}
	k.e.mu.Unlock()
	p.mu.Unlock()
	if moved {
		p.m.o.OnStable(p.id, p.num)
	}
}

// hold sets the bound of the producer before a commit that may begin a transaction: until leave the
// last stable offset is not above it, and the batch will not be below it. end is an end that the
// partition had at some moment before the commit. The bound is known if that is greater: a reader
// may have got it as the last stable offset, which must not fall.
func (k *ticket) hold(end int64) {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	k.p.known = max(k.p.known, end)
	if k.e.first < 0 {
		k.e.bound = k.p.known
		k.p.open[k.e] = struct{}{}
	}
}

// reopenLocked adds e to p.open or removes it, as first and bound say.
func (p *partitionState) reopenLocked(e *producer) {
	if e.first >= 0 || e.bound >= 0 {
		p.open[e] = struct{}{}
	} else if len(p.open) > 0 {
		delete(p.open, e)
	}
}

// firstOpenLocked returns the least first offset, or bound, of the transactions in p.open; MaxInt64
// if there are none.
func (p *partitionState) firstOpenLocked() int64 {
	least := int64(math.MaxInt64)
	if len(p.open) == 0 {
		return least
	}
	for e := range p.open {
		if e.first >= 0 {
			least = min(least, e.first)
		} else {
			least = min(least, e.bound)
		}
	}
	return least
}

// dropLocked discards the state after a commit with an unknown outcome. The next use loads it from
// the log. Since p.open is empty then, leave calls OnStable if it was not empty before.
func (p *partitionState) dropLocked() {
	p.loaded = false
	p.producers, p.open = nil, map[*producer]struct{}{}
}

// stored updates the producer after the commit of a batch, at time now in ms. The lock of the
// partition is held.
func (k *ticket) stored(h *header, at partition.Appended, now int64) {
	invariants.Check(at.Base >= k.bound, "a batch is at %d, below the end %d that the partition had before", at.Base, k.bound)
	k.e.apply(h, at.Base, stampOf(at))
	k.e.time = now
	k.p.changedLocked(k.e, at.Next)
}

// stampOf returns the log append time of a batch in ms, or NoTimestamp.
func stampOf(at partition.Appended) int64 {
	if at.Time.IsZero() {
		return recordbatch.NoTimestamp
	}
	return at.Time.UnixMilli()
}

// ended updates the producer after the commit of a marker at offset at, at time now in ms. The lock
// of the partition is held.
func (k *ticket) ended(epoch int16, commit bool, at, now int64) {
	p := k.p
	k.e.time = now
	if first := k.e.end(epoch, at); first >= 0 && !commit {
		p.abortLocked(Aborted{ProducerID: k.e.pid, First: first, Last: at})
	}
	p.changedLocked(k.e, at+1)
}

// changedLocked notes that e has changed by a batch or marker that ends before offset next.
func (p *partitionState) changedLocked(e *producer, next int64) {
	p.known = max(p.known, next)
	p.saved.batches++
	if !e.dirty {
		e.dirty = true
		p.saved.dirty = append(p.saved.dirty, e)
	}
}

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

// partition is the state of one partition in memory. It is read from the
// log when it is first needed, and again after a commit whose outcome is unknown.
//
// Lock order: transaction.mu, then the tickets of partitions in the order of their
// places, then partition.mu. A ticket holds producer.mu.
//
// Invariant: head is at most the base offset of every batch with a producer id
// that is not in what is stored about the producers.
type partitionState struct {
	m *Manager
	place

	mu        sync.Mutex
	left      sync.Cond // signalled when the last ticket is given back, and when a snapshot is ended
	t         *topic.Topic
	loaded    bool
	stored    bool  // there is a head in the log
	head      int64 // what the head in the log says, or what the first will say
	known     int64 // the partition ends here or later
	producers map[int64]*producer
	open      map[*producer]struct{} // those with a transaction, or about to begin one
	aborted   []Aborted              // in the order of Last
	tickets   []*ticket

	saved savedState
}

// savedState says what is stored about a partition.
type savedState struct {
	batches int                // taken over since the last snapshot
	dirty   []*producer        // changed since; see producer.dirty
	expired map[int64]struct{} // stored, but to be forgotten
	aborted []Aborted          // ended since
	runs    []int64            // the stored runs of aborted transactions, by the offset in their keys
	saving  bool               // a snapshot is being committed
}

// ticket is the right to append as one producer to one partition. The zero ticket
// is of no partition.
type ticket struct {
	p     *partitionState
	e     *producer
	bound int64 // what is appended with it lies here or behind
	at    int   // in p.tickets
	rides bool  // something may have to be saved with what is appended
}

// partition returns the partition at num of t.
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

// enter makes k a ticket for the producer pid. It waits for the holder of another.
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

// leave gives the ticket back, after f, if it is not nil, has changed what is known.
// It wakes waiting readers when the last stable offset has moved.
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

// hold keeps readers of stable records off what comes at the end of the partition
// or behind it: a transaction may be about to begin. It is called with end, which
// the partition had at some moment, before the commit that may begin it.
func (k *ticket) hold(end int64) {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	k.p.known = max(k.p.known, end)
	if k.e.first < 0 {
		k.e.bound = k.p.known
		k.p.open[k.e] = struct{}{}
	}
}

// reopenLocked makes p.open right for e.
func (p *partitionState) reopenLocked(e *producer) {
	if e.first >= 0 || e.bound >= 0 {
		p.open[e] = struct{}{}
	} else if len(p.open) > 0 {
		delete(p.open, e)
	}
}

// firstOpenLocked returns the least first offset of an open transaction, or of one
// that may be about to begin; MaxInt64 if there is none.
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

// dropLocked forgets what is in memory: the log may know better. Readers that wait
// are told to look again.
func (p *partitionState) dropLocked() {
	p.loaded = false
	p.producers, p.open = nil, map[*producer]struct{}{}
}

// stored takes over a batch that was committed at time now, in ms.
func (k *ticket) stored(h *header, at partition.Appended, now int64) {
	invariants.Check(at.Base >= k.bound, "a batch is at %d, below the end %d that the partition had before", at.Base, k.bound)
	k.e.apply(h, at.Base, stampOf(at))
	k.e.time = now
	k.p.changedLocked(k.e, at.Next)
}

func stampOf(at partition.Appended) int64 {
	if at.Time.IsZero() {
		return recordbatch.NoTimestamp
	}
	return at.Time.UnixMilli()
}

// ended takes over a marker that was committed at offset at, at time now, in ms.
func (k *ticket) ended(epoch int16, commit bool, at, now int64) {
	p := k.p
	k.e.time = now
	if first := k.e.end(epoch, at); first >= 0 && !commit {
		p.abortLocked(Aborted{ProducerID: k.e.pid, First: first, Last: at})
	}
	p.changedLocked(k.e, at+1)
}

func (p *partitionState) changedLocked(e *producer, next int64) {
	p.known = max(p.known, next)
	p.saved.batches++
	if !e.dirty {
		e.dirty = true
		p.saved.dirty = append(p.saved.dirty, e)
	}
}

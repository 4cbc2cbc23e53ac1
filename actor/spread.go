package actor

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A value for n idle actors (Event.Publish, Group.Broadcast) would start n goroutines at once.
// Instead spread wakes the actors in chunks of chunkActors:
//
//  1. GOMAXPROCS workers, or fewer if there are fewer chunks, take one chunk after another.
//  2. A worker offers the value to all actors of its chunk. The idle ones that this has woken are
//     its batch. spread returns when all chunks have been offered.
//  3. An offer never waits. What may wait (for a transport, or the actor of a key) is done by the
//     worker, after it has given its batch to another worker. The caller of spread waits for room
//     in mailboxes with the policy Block, in which the value has its place in the queue by then.
//  4. The worker runs the actors of its batch one after another, each until its mailbox is empty,
//     while their memory is in the cache of the processor. Then it takes the next chunk.
//
// An actor that blocks in Receive holds up the rest of its batch, and the chunks that its worker
// would take. So every watchdogEvery the watchdog compares how many actors have been begun with the
// last time. If those are not more than there are workers, it starts as many workers again, for the
// batches that still have actors that nobody has begun, or for the chunks that are left. It stops
// when all is begun.
//
// Invariant: each actor of a batch is run by exactly one worker: the one that got its index from
// batch.next.
const (
	chunkActors   = 128
	watchdogEvery = 2 * time.Millisecond
)

// rest is what is left to do after an offer that could not put the envelope into a mailbox at once.
// The zero rest is nothing.
type rest struct {
	do     func() error // may wait; its error is like that of offer
	queued bool         // the envelope has its place in a queue of senders, and do only waits for room
}

// runnable is an actor of any message type that has been claimed: the caller of run has it.
type runnable interface{ run() }

// offer puts an envelope into the mailbox like put, but does not wait: the caller must do the rest.
// It returns the actor if that has woken it: the caller must run it. If the actor has ended, the
// error is ErrStopped itself and there is no dead letter. After any other error there is one.
func (p *process[M]) offer(ctx context.Context, e envelope[M]) (woken runnable, left rest, err error) {
	if p.node.observed {
		e.x = p.node.observe(ctx, Ref[M]{p}, e.x)
	}
	p.mu.Lock()
	switch {
	case !p.state.open():
		p.mu.Unlock()
		return nil, rest{}, ErrStopped
	case p.bounded == nil:
		p.queue.push(p.typeState, e)
	case p.bounded.full() || len(p.bounded.waiting) > 0:
		return nil, p.offerFull(ctx, e), nil // unlocks
	default:
		p.bounded.push(e)
	}
	if p.state.phase == phaseIdle {
		p.claim()
		woken = p
	}
	p.mu.Unlock()
	return woken, rest{}, nil
}

// offerFull is overflow for an offer. The caller holds p.mu; offerFull unlocks it.
func (p *process[M]) offerFull(ctx context.Context, e envelope[M]) rest {
	switch p.set.Overflow {
	case Block:
		if s, _ := p.queueSender(ctx, e); s != nil { // unlocks; else it has dealt with e
			return rest{queued: true, do: func() error { return p.awaitRoom(ctx, s) }}
		}
		return rest{}
	case Divert:
		p.mu.Unlock()
		return rest{do: func() error { _ = p.set.Fallback.(Ref[M]).put(ctx, User, e); return nil }}
	}
	_ = p.overflow(ctx, e) // unlocks; its policy has dealt with it
	return rest{}
}

func (a *adapter[A, B]) offer(ctx context.Context, e envelope[A]) (runnable, rest, error) {
	turned, err := a.turn(e)
	if err != nil {
		return nil, rest{}, err
	}
	return a.ref.to.offer(ctx, turned)
}

// batch are the actors of a chunk that were woken.
type batch struct {
	actors []runnable   // does not change while the batch is in active
	next   atomic.Int64 // the index of the next actor to run; it may exceed len(actors)
	shared bool         // more than one worker has it: it must not be used again; spreading.mu guards it
}

// run runs actors of b until there is none that no worker has begun.
func (b *batch) run() {
	for {
		i := b.next.Add(1) - 1
		if i >= int64(len(b.actors)) {
			return
		}
		b.actors[i].run()
	}
}

// spreading is one call of spread.
type spreading[E any] struct {
	ctx    context.Context
	refs   []Ref[E]
	v      E
	chunks int64         // how many chunks refs has
	next   atomic.Int64  // the chunk to take next; it may exceed chunks
	left   atomic.Int64  // chunks that have not been offered to the end
	placed chan struct{} // closed when left is 0

	mu      sync.Mutex          // guards the fields below, and shared of all batches
	waits   []func() error      // waits for room in mailboxes
	gone    []Ref[E]            // references to actors that had ended
	active  map[*batch]struct{} // batches that are not finished
	workers int                 // workers that have not returned
	ran     int64               // actors of finished batches
	seen    int64               // actors that were begun when the watchdog ran last
}

// spread puts v into the mailboxes of refs and returns the references to actors that have ended. It
// waits for room in mailboxes, but not until the actors have handled v. refs is read until it
// returns.
func spread[E any](ctx context.Context, refs []Ref[E], v E) []Ref[E] {
	if len(refs) == 0 {
		return nil
	}
	s := &spreading[E]{
		ctx: ctx, refs: refs, v: v, placed: make(chan struct{}), active: make(map[*batch]struct{}),
		chunks: int64((len(refs) + chunkActors - 1) / chunkActors),
	}
	s.left.Store(s.chunks)
	if s.chunks == 1 {
		s.next.Store(1)
		b := &batch{actors: make([]runnable, 0, len(refs))}
		later := s.place(b, 0)
		if len(b.actors) > 0 {
			s.active[b] = struct{}{}
			s.hire(1, b)
		}
		s.end(later)
	} else {
		s.hire(min(runtime.GOMAXPROCS(0), int(s.chunks)), nil)
	}
	time.AfterFunc(watchdogEvery, s.look)
	<-s.placed // from here on, only this goroutine uses waits and gone
	for _, wait := range s.waits {
		_ = wait() // if it fails, the value is a dead letter
	}
	return s.gone
}

// hire starts n workers, for b if that is not nil. The caller holds s.mu, or no worker runs yet.
func (s *spreading[E]) hire(n int, b *batch) {
	s.workers += n
	for range n {
		go s.work(b)
	}
}

// work is a worker: it runs the rest of b, if that is not nil, and then takes chunks.
func (s *spreading[E]) work(b *batch) {
	if b != nil {
		s.finish(b)
	}
	b = &batch{actors: make([]runnable, 0, chunkActors)}
	for {
		i := s.next.Add(1) - 1
		if i >= s.chunks {
			break
		}
		later := s.place(b, int(i))
		s.mu.Lock()
		s.active[b] = struct{}{}
		if len(later) > 0 && len(b.actors) > 0 {
			b.shared = true
			s.hire(1, b)
		}
		s.mu.Unlock()
		s.end(later)
		if !s.finish(b) {
			b = &batch{actors: make([]runnable, 0, chunkActors)}
			continue
		}
		clear(b.actors)
		b.actors = b.actors[:0]
		b.next.Store(0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers--
}

// finish runs b to its end and reports whether the caller may use it for another chunk.
func (s *spreading[E]) finish(b *batch) bool {
	b.run()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.active[b]; ok {
		delete(s.active, b)
		s.ran += int64(len(b.actors))
	}
	return !b.shared
}

// place offers the value to the actors of a chunk and appends those that this has woken to b. It
// returns what is left to do for the chunk: the argument of end.
func (s *spreading[E]) place(b *batch, chunk int) (later []func()) {
	e := envelope[E]{m: s.v}
	for _, r := range s.refs[chunk*chunkActors : min((chunk+1)*chunkActors, len(s.refs))] {
		woken, left, err := r.to.offer(s.ctx, e)
		switch {
		case err != nil:
			s.failed(r, err)
		case woken != nil:
			b.actors = append(b.actors, woken)
		case left.queued:
			s.mu.Lock()
			s.waits = append(s.waits, left.do)
			s.mu.Unlock()
		case left.do != nil:
			later = append(later, func() { s.failed(r, left.do()) })
		}
	}
	return later
}

// failed notes the error of an offer, or none.
func (s *spreading[E]) failed(r Ref[E], err error) {
	if err == ErrStopped { // any other error is about the message: the actor goes on
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gone = append(s.gone, r)
	}
}

// end does what place has left, and ends the placing of a chunk. It may wait, so the batch of the
// chunk must have a worker.
func (s *spreading[E]) end(later []func()) {
	for _, do := range later {
		do()
	}
	if s.left.Add(-1) == 0 {
		close(s.placed)
	}
}

// look is the watchdog. If no more actors were begun since it ran last than there are workers, it
// takes the workers for blocked and starts as many again.
func (s *spreading[E]) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var stuck []*batch
	progress := s.ran
	for b := range s.active {
		n := min(b.next.Load(), int64(len(b.actors)))
		progress += n
		if n < int64(len(b.actors)) {
			stuck = append(stuck, b)
		}
	}
	if len(stuck) == 0 && s.next.Load() >= s.chunks {
		return // all actors have been begun
	}
	if progress-s.seen <= int64(s.workers) {
		more := max(1, s.workers/max(1, len(stuck)))
		for _, b := range stuck {
			b.shared = true
			s.hire(more, b)
		}
		if len(stuck) == 0 {
			s.hire(more, nil)
		}
	}
	s.seen = progress
	time.AfterFunc(watchdogEvery, s.look)
}

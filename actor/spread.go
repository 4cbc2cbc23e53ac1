package actor

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A value for very many actors would start as many goroutines, all at once. So
// their actors are woken in chunks: a worker puts the value into the mailboxes of a
// chunk and then runs the actors that were idle one after another, while their
// memory is still in its cache. An actor that blocks in Receive would hold up the rest of
// its chunk: a watchdog looks for that and starts more workers for what is left.
const (
	chunkActors   = 128
	watchdogEvery = 2 * time.Millisecond
)

// runnable is an actor of any message type that a goroutine has claimed.
type runnable interface{ run() }

// offer puts an envelope into the mailbox like put, but leaves it to the caller to
// run the actor if that woke it. The error is ErrStopped itself if the actor has
// stopped: then there is no dead letter. After any other error there is one.
func (p *process[M]) offer(ctx context.Context, e envelope[M]) (woken runnable, err error) {
	if p.node.observed {
		e.x = p.node.observe(ctx, Ref[M]{p}, e.x)
	}
	p.mu.Lock()
	switch {
	case !p.state.open():
		p.mu.Unlock()
		return nil, ErrStopped
	case p.bounded == nil:
		p.queue.push(p.typeState, e)
	case p.bounded.full() || len(p.bounded.waiting) > 0:
		_ = p.overflow(ctx, e) // unlocks; its policy has dealt with it
		return nil, nil
	default:
		p.bounded.push(e)
	}
	if p.state.phase == phaseIdle {
		p.claim()
		woken = p
	}
	p.mu.Unlock()
	return woken, nil
}

func (a *adapter[A, B]) offer(ctx context.Context, e envelope[A]) (runnable, error) {
	turned, err := a.turn(e)
	if err != nil {
		return nil, err
	}
	return a.ref.to.offer(ctx, turned)
}

// batch are actors that were woken together, and how many of them have been run.
type batch struct {
	actors []runnable
	next   atomic.Int64
	shared bool // more than one worker runs it; spreading.mu guards it
}

// run runs actors of b until all have been claimed.
func (b *batch) run() {
	for {
		i := b.next.Add(1) - 1
		if i >= int64(len(b.actors)) {
			return
		}
		b.actors[i].run()
	}
}

// spreading is one value on its way to many actors.
type spreading[E any] struct {
	ctx    context.Context
	refs   []Ref[E]
	v      E
	chunks int64
	next   atomic.Int64  // the chunk to take next
	left   atomic.Int64  // chunks whose mailboxes do not have the value yet
	placed chan struct{} // closed when left is 0

	mu      sync.Mutex // guards the fields below
	gone    []Ref[E]   // whose actors had stopped
	active  map[*batch]struct{}
	workers int
	ran     int64 // actors of batches that are finished
	seen    int64 // progress at the last look of the watchdog
}

// spread puts v into the mailboxes of refs and returns those that have stopped.
// The actors run on after it has returned.
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
		s.place(b, 0)
		if len(b.actors) > 0 {
			s.active[b] = struct{}{}
			s.hire(1, b)
		}
	} else {
		s.hire(min(runtime.GOMAXPROCS(0), int(s.chunks)), nil)
	}
	time.AfterFunc(watchdogEvery, s.look)
	<-s.placed
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

func (s *spreading[E]) hire(n int, b *batch) {
	s.workers += n
	for range n {
		go s.work(b)
	}
}

// work runs what is left of b, if not nil, and then takes chunks.
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
		s.place(b, int(i))
		s.mu.Lock()
		s.active[b] = struct{}{}
		s.mu.Unlock()
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

// finish runs b to its end and reports whether the caller may use it again.
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

// place puts the value into the mailboxes of a chunk and the woken actors into b.
func (s *spreading[E]) place(b *batch, chunk int) {
	e := envelope[E]{m: s.v}
	for _, r := range s.refs[chunk*chunkActors : min((chunk+1)*chunkActors, len(s.refs))] {
		woken, err := r.to.offer(s.ctx, e)
		switch {
		case err == ErrStopped: // any other error is of a message, not of the actor
			s.mu.Lock()
			s.gone = append(s.gone, r)
			s.mu.Unlock()
		case woken != nil:
			b.actors = append(b.actors, woken)
		}
	}
	if s.left.Add(-1) == 0 {
		close(s.placed)
	}
}

// look is the watchdog. If the workers have begun with fewer actors than they
// are since it looked last, they are blocked, and it hires as many again.
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
		return // all that is left runs
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

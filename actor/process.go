package actor

import (
	"context"
	"runtime/debug"
	"sync/atomic"
)

// process is an actor of message type M: its core, its mailbox, and its loop.
//
// While it is idle, no goroutine belongs to it. The first message into an empty mailbox starts
// one, which runs until the mailbox is empty again. So at most one goroutine has an actor at a
// time (see state.go), and an actor that blocks in its Receive method blocks no other. The
// exception are actors that an Event or a Group has woken: they share goroutines (see spread.go).
//
// The loop takes, in this order:
//
//  1. the reason of Context.Stop, which ends the incarnation
//  2. signals: exits, requests to end, and reports of children
//  3. Urgent messages, then System messages
//  4. User messages: first those that were unstashed, then cur, queue or bounded
//
// A sender appends to queue under core.mu. The reader takes a whole chunk under core.mu, cur, and
// then reads its envelopes without a lock. So the lock is taken once for many messages, and the
// reader tests the flag expressed between two messages of a chunk, to notice 1 to 3.
//
// Invariants:
//   - expressed is true whenever express holds anything or halt is set.
//   - A process uses either queue and cur, or bounded.
//   - The actor becomes idle only under core.mu, with nothing unread in queue, cur, bounded and
//     own.front, and expressed false. So a sender that has put an envelope either finds the actor
//     idle and wakes it, or the goroutine that has the actor finds the envelope.
type process[M any] struct {
	core
	queue   queue[M]    // User messages that have no limit; core.mu guards it
	bounded *bounded[M] // User messages that have a limit, else nil; core.mu guards what it points to
	express *express[M] // signals, Urgent and System messages, or nil; core.mu guards it
	read    uint64      // envelopes that have left the mailbox, besides those of cur; core.mu guards it

	// expressed is set under core.mu by those who put something into express, and by
	// Context.Stop. Only the goroutine that has the actor clears it, under core.mu.
	expressed atomic.Bool

	// The goroutine that has the actor writes the fields below. Others may read at without a
	// lock, and cur and act under core.mu, under which these two are written.
	at     atomic.Uint32 // how many envelopes of cur have been read
	cur    *chunk[M]     // the chunk that is being read, or nil
	act    Actor[M]      // the value that gets messages; nil when the actor is dead
	halt   error         // the reason that Context.Stop was given, or nil
	asking asked         // the question of the present message; nil if it asks none, or was passed on
	ticket uint64        // the ticket of asking
	own    *own[M]       // nil for most actors

	trace atomic.Pointer[context.Context] // with a Tracer: the context of the present message, else nil

	// The fields below do not change once others can reach the actor, except for fresh, which
	// terminate clears, and start, which core.mu guards.
	ctx       Context[M]
	typeState *typeState[M]
	set       *settings
	fresh     func() Actor[M] // makes the value of an incarnation; nil if the actor cannot be restarted
	start     func()          // see starter; made once, since a go statement with an argument allocates
}

// own holds fields that belong to the goroutine that has the actor and that few actors need.
type own[M any] struct {
	front []envelope[M] // unstashed messages: they are handled before those of the queue
	stash []envelope[M] // in the order of the calls of Context.Stash
	plain Actor[M]      // the value that the incarnation began with, while Become has replaced it
}

func (p *process[M]) extras() *own[M] {
	if p.own == nil {
		p.own = new(own[M])
	}
	return p.own
}

// put places an envelope in the mailbox and starts the actor if it is idle. An envelope that finds
// the mailbox closed or full becomes a dead letter, or is treated as the overflow policy says.
func (p *process[M]) put(ctx context.Context, prio Priority, e envelope[M]) error {
	p.mu.Lock()
	if !p.state.open() {
		p.mu.Unlock()
		return p.refuse(e, ErrStopped)
	}
	switch {
	case prio != User:
		p.priorityQueue().push(prio, e)
	case p.bounded == nil:
		p.queue.push(p.typeState, e)
	case p.bounded.full() || len(p.bounded.waiting) > 0:
		return p.overflow(ctx, e) // unlocks
	default:
		p.bounded.push(e)
	}
	p.wake() // unlocks
	return nil
}

// priorityQueue returns the express part of the mailbox. The caller holds p.mu and puts something
// into it before it unlocks.
func (p *process[M]) priorityQueue() *express[M] {
	if p.express == nil {
		p.express = new(express[M])
	}
	p.expressed.Store(true)
	return p.express
}

// wake unlocks p.mu and starts a goroutine for the actor if it is idle.
func (p *process[M]) wake() {
	woken := p.state.phase == phaseIdle
	if woken {
		p.claim()
		if p.start == nil {
			p.start = starter(p)
		}
	}
	p.mu.Unlock()
	if woken {
		go p.start()
	}
}

// starter returns the function that a goroutine runs for r. It is no method of process because the
// Go runtime reads the name of that function when a goroutine starts and ends, and the names of
// methods of generic types are very long: reading them took 4 % of an Ask.
func starter(r runnable) func() {
	return func() { r.run() }
}

// claim makes an idle actor running. The caller holds p.mu and has a goroutine run the actor. claim
// takes the first chunk already, so that this goroutine need not lock the mailbox for it.
func (p *process[M]) claim() {
	p.state.step(onWake)
	if p.cur == nil {
		p.cur = p.queue.take()
	}
}

// signal queues s and closes the Done channel if s will end the actor. An exit with the reason
// Normal, and any exit while the actor traps exits, does not.
func (p *process[M]) signal(s signal) {
	p.mu.Lock()
	if !p.state.alive() {
		p.mu.Unlock()
		return
	}
	x := p.priorityQueue()
	x.signals = append(x.signals, s)
	if s.kind == stopSignal || s.kind == killSignal || s.kind == exitSignal && (p.coreExtras == nil || p.coreExtras.trap == nil) && s.reason != Normal {
		p.cancelLocked()
	}
	p.wake()
}

// cancelLocked closes the Done channel of the actor's context. The caller holds c.mu.
func (c *core) cancelLocked() {
	r := c.more()
	if !r.closed && r.done != nil {
		close(r.done)
	}
	r.closed = true
}

// post: see ops. A task that belongs to no incarnation (inc 0) is taken also while the actor is
// ending: the next incarnation runs it, or it is dropped.
func (p *process[M]) post(prio Priority, x *extra) bool {
	p.mu.Lock()
	if !p.state.alive() && (p.state.phase != phaseEnding || x.inc != 0) || x.inc != 0 && x.inc != p.inc {
		p.mu.Unlock()
		return false
	}
	e := envelope[M]{x: x}
	switch {
	case prio != User:
		p.priorityQueue().push(prio, e)
	case p.bounded != nil:
		p.bounded.push(e)
	default:
		p.queue.push(p.typeState, e)
	}
	p.wake()
	return true
}

// run handles messages until the mailbox is empty or the incarnation has ended. When it has
// returned, the calling goroutine no longer has the actor and must not touch it.
func (p *process[M]) run() {
	if reason := p.work(); reason != nil {
		p.end(reason)
	}
}

// work handles messages. It returns nil when the mailbox is empty, and the exit reason when the
// incarnation must end. A panic in a function of the actor is such a reason.
func (p *process[M]) work() (reason error) {
	returned := false
	defer func() {
		if !returned {
			reason = p.rescue(recover())
		}
	}()
	reason = p.loop()
	returned = true
	return reason
}

// loop is work without the recovery from panics.
func (p *process[M]) loop() error {
	for {
		if p.expressed.Load() {
			if reason := p.handleExpress(); reason != nil {
				return reason
			}
			continue
		}
		e, ok := p.next()
		if !ok {
			return nil
		}
		if reason := p.handle(e); reason != nil {
			return reason
		}
	}
}

// rescue returns the exit reason for a panic with the value v. If v is nil, runtime.Goexit is
// ending the goroutine, and rescue starts another one that ends the incarnation with Exited.
func (p *process[M]) rescue(v any) error {
	if v == nil {
		go p.end(Exited)
		return nil
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}

// next removes the next user message. If it returns false, the actor has become idle, and the
// calling goroutine must not touch it any more.
func (p *process[M]) next() (envelope[M], bool) {
	for {
		if p.own != nil {
			if e, ok := shift(&p.own.front); ok {
				return e, true
			}
		}
		if c := p.cur; c != nil {
			if at := int(p.at.Load()); at < len(c.slots) {
				e := c.slots[at]
				c.slots[at] = envelope[M]{}
				p.at.Store(uint32(at + 1))
				return e, true
			}
		}
		e, ok, again := p.refill()
		if !again {
			return e, ok
		}
	}
}

// refill is called when cur and own.front are empty. It takes the next chunk from the queue and
// returns again, removes a message from a bounded mailbox and returns it with ok, or makes the
// actor idle and returns neither.
func (p *process[M]) refill() (e envelope[M], ok, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bounded != nil {
		if e, ok = p.bounded.pop(); ok {
			p.read++
			return e, true, false
		}
	} else {
		if p.cur != nil {
			p.read += uint64(p.at.Load())
			p.queue.giveBack(p.typeState, p.cur)
		}
		p.at.Store(0)
		if p.cur = p.queue.take(); p.cur != nil {
			return e, false, true
		}
	}
	if p.expressed.Load() {
		// It was set after the loop tested it. An envelope without a task or a message makes the
		// loop test it again.
		return envelope[M]{x: &extra{}}, true, false
	}
	p.queue.rest(p.typeState)
	p.state.step(onRest)
	if p.set.Idle > 0 {
		p.idleLocked()
	}
	return e, false, false
}

// handle handles one message or runs one task. It returns the exit reason if the incarnation must
// end, else nil.
func (p *process[M]) handle(e envelope[M]) error {
	if e.x != nil {
		return p.handleExtra(e)
	}
	return p.act.Receive(&p.ctx, e.m)
}

// handleExtra is handle for a task, a message that asks a question, or a message that is observed.
// A task of an incarnation that has ended is dropped, and a question after its deadline becomes a
// dead letter. After an error p.asking stays set: end fails the question.
func (p *process[M]) handleExtra(e envelope[M]) error {
	x := e.x
	if x.task != nil {
		if x.inc != 0 && x.inc != p.inc {
			return nil
		}
		return x.task()
	}
	if x.asked == nil && x.trail == nil {
		return nil
	}
	if x.expired() {
		_ = p.refuse(e, context.DeadlineExceeded)
		return nil
	}
	t := x.trail
	p.asking, p.ticket = x.asked, x.ticket
	x.taken.Store(p.ticket + 1) // from here on x may be reused for another question: see Ask
	var err error
	if t != nil {
		err = p.receive(e.m, t)
	} else {
		err = p.act.Receive(&p.ctx, e.m)
	}
	if err == nil {
		p.asking = nil
	}
	return err
}

// handleExpress returns the reason of Context.Stop, if it was called; else it handles one signal,
// or one message of a priority above User. If there is none, it clears expressed.
func (p *process[M]) handleExpress() error {
	p.mu.Lock()
	if p.halt != nil {
		p.mu.Unlock()
		return p.halt
	}
	x := p.express
	if x != nil {
		if s, ok := shift(&x.signals); ok {
			p.mu.Unlock()
			return p.handleSignal(s)
		}
		if e, ok := x.pop(); ok {
			p.read++
			p.mu.Unlock()
			return p.handle(e)
		}
	}
	p.express = nil
	p.expressed.Store(false)
	p.mu.Unlock()
	return nil
}

// handleSignal handles a signal. It returns the exit reason if the actor must end, else nil.
func (p *process[M]) handleSignal(s signal) error {
	switch s.kind {
	case killSignal:
		return Killed
	case childSignal:
		if k, ok := any(p.act).(*supervisor); ok {
			return k.childEnded(s.from, s.inc, s.reason)
		}
		return nil
	case exitSignal:
		return p.exited(s)
	}
	return s.reason
}

package actor

import (
	"context"
	"runtime/debug"
	"sync/atomic"
)

// process is an actor of message type M: its core, its mailbox, and its loop.
//
// While it is idle, no goroutine belongs to it. The first message into an empty
// mailbox starts one, which runs until the mailbox is empty again. So at most one
// goroutine has an actor at a time (see state.go), and an actor that blocks in its
// Receive method blocks no other.
type process[M any] struct {
	core
	queue   queue[M]    // user messages without a limit; core.mu guards it
	bounded *bounded[M] // user messages with a limit, else nil; core.mu guards what it points to
	express *express[M] // messages and signals that go first, or nil; core.mu guards it
	read    uint64      // messages that have left the mailbox, besides those of cur; core.mu guards it

	// The fields below belong to the goroutine that has the actor.
	expressed atomic.Bool   // something may be in express, or halt is set
	at        atomic.Uint32 // how far cur is read; only the owner writes it
	cur       *chunk[M]     // the chunk being read; core.mu guards the pointer
	act       Actor[M]
	halt      error  // set by Context.Stop
	asking    asked  // the question of the message being handled
	ticket    uint64 // with asking
	own       *own[M]

	trace atomic.Pointer[context.Context] // of the message being handled, with a Tracer

	ctx       Context[M]
	typeState *typeState[M]
	set       *settings
	fresh     func() Actor[M] // makes the value of an incarnation; nil if it cannot be restarted
	start     func()          // see starter; made once: a go statement with an argument allocates
}

// own holds fields that belong to the actor's goroutine and that few actors need.
type own[M any] struct {
	front []envelope[M] // unstashed messages, which go before the queue
	stash []envelope[M]
	plain Actor[M] // the value of act before Become
}

func (p *process[M]) extras() *own[M] {
	if p.own == nil {
		p.own = new(own[M])
	}
	return p.own
}

// put places an envelope in the mailbox and starts the actor if it is idle.
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

// priorityQueue returns the express part of the mailbox. The caller holds p.mu and
// puts something into it.
func (p *process[M]) priorityQueue() *express[M] {
	if p.express == nil {
		p.express = new(express[M])
	}
	p.expressed.Store(true)
	return p.express
}

// wake unlocks p.mu and starts the actor if it is alive and idle.
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

// starter returns the function with which a goroutine that runs r begins. It is no
// method of process because the runtime reads that function's name whenever a goroutine starts and
// ends, and names of methods of generic types are very long: 4 % of an Ask.
func starter(r runnable) func() {
	return func() { r.run() }
}

// claim takes an idle actor to running: the caller lets a goroutine run it. It fetches
// the first chunk, for which the goroutine would have to lock the mailbox. The caller
// holds p.mu.
func (p *process[M]) claim() {
	p.state.step(onWake)
	if p.cur == nil {
		p.cur = p.queue.take()
	}
}

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

// cancelLocked closes the Done channel of the actor's context.
func (c *core) cancelLocked() {
	r := c.more()
	if !r.closed && r.done != nil {
		close(r.done)
	}
	r.closed = true
}

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

// run is the actor's goroutine. It returns when the mailbox is empty or the incarnation
// has ended; from then on the goroutine must not touch the actor.
func (p *process[M]) run() {
	if reason := p.work(); reason != nil {
		p.end(reason)
	}
}

// work handles messages until there are none, and returns nil, or until the
// incarnation must end, and returns the reason.
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

// rescue turns a panic into a reason. If runtime.Goexit is ending the goroutine, another
// goroutine ends the incarnation.
func (p *process[M]) rescue(v any) error {
	if v == nil {
		go p.end(Exited)
		return nil
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}

// next removes the next user message. If there is none, the actor has become
// idle: its goroutine must not touch it any more.
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

// refill fetches the next chunk (again), a message of a bounded mailbox (ok), or
// makes the actor idle (neither).
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
		// It was put there after the loop tested the flag; an empty task makes the loop test it again.
		return envelope[M]{x: &extra{}}, true, false
	}
	p.queue.rest(p.typeState)
	p.state.step(onRest)
	if p.set.Idle > 0 {
		p.idleLocked()
	}
	return e, false, false
}

// handle runs one message or task, and returns the reason to end for, if any.
func (p *process[M]) handle(e envelope[M]) error {
	if e.x != nil {
		return p.handleExtra(e)
	}
	return p.act.Receive(&p.ctx, e.m)
}

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
	x.taken.Store(p.ticket + 1) // from here on x may belong to another question
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

// handleExpress handles Context.Stop, handles one signal, or one message of a
// priority above User.
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

// handleSignal handles a signal.
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

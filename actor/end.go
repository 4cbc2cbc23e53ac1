package actor

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"
)

// end ends the incarnation of the actor that the calling goroutine has. The children end
// first, then the Stop method is called, then links and monitors are notified. A
// supervised actor is suspended until its supervisor restarts or finalizes it; any other
// is terminated.
func (p *process[M]) end(reason error) {
	p.mu.Lock()
	drained := p.state.phase == phaseDraining
	p.state.step(onEnd)
	p.cancelLocked()
	p.mu.Unlock()

	p.endChildren(drained)
	p.ctx.Unbecome()
	if reason != Killed {
		reason = p.callStop(reason)
	}
	reason, crash := judge(reason)
	if p.asking != nil {
		p.asking.abandon(p.ticket, p.address(), reason)
		p.asking = nil
	}
	if o := p.node.observer; o != nil {
		p.node.harmless(func() { o.Ended(Ref[M]{p}, reason) })
	}
	if crash {
		report(p.node.log.Error, "actor failed", "actor", p.address().String(), "reason", reason)
	}

	last, inc, suspended := p.part(reason)
	if last.idle != nil {
		last.idle.timer.Stop()
	}
	if suspended {
		p.tell(&last, reason)
		p.parent.ops.signal(signal{kind: childSignal, from: &p.core, inc: inc, reason: reason})
		if last.ended != nil {
			close(last.ended)
		}
		return
	}
	p.terminate(onTerminate, reason) // before monitors are called, which may register its name anew
	p.tell(&last, reason)
	p.finish()
}

// judge reports whether an actor failed. A reason whose methods panic, such as a
// nil pointer in an error, would do so wherever it is looked at: it becomes that panic.
func judge(reason error) (safe error, crash bool) {
	if err := guard(func() error { crash = IsCrash(reason); _ = reason.Error(); return nil }); err != nil {
		return err, true
	}
	return reason, crash
}

// part takes from the actor the links and monitors of the incarnation that ends, to be
// notified by the caller. A supervised actor is suspended from then on: its
// supervisor may restart it at any time.
func (p *process[M]) part(reason error) (last coreExtras, inc uint32, suspended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.more()
	last, inc, suspended = *r, p.inc, p.state.supervised
	*r = coreExtras{names: last.names, reason: reason}
	p.halt = nil
	p.inc++
	if suspended {
		p.state.step(onSuspend)
	} else {
		p.state.step(onPart)
		r.ended = last.ended
	}
	return last, inc, suspended
}

// finish removes a dead actor from its parent and wakes the goroutines that wait for
// its end.
func (p *process[M]) finish() {
	p.mu.Lock()
	p.state.step(onFinish)
	ended := p.coreExtras.ended
	p.mu.Unlock()
	p.parent.disown(&p.core)
	if ended != nil {
		close(ended)
	}
}

// callStop calls the Stop method of the actor, if it has one. If that panics, it
// is the new reason.
func (p *process[M]) callStop(reason error) (outcome error) {
	s, ok := p.act.(Stopper[M])
	if !ok {
		return reason
	}
	return guard(func() error {
		s.Stop(&p.ctx, reason)
		return reason
	})
}

// guard calls f and turns a panic into an error. A Goexit inside f ends the
// goroutine: f runs in one of its own.
func guard(f func() error) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	err = f()
	returned = true
	return err
}

// endChildren stops all children, the newest first, and waits for them.
func (p *process[M]) endChildren(drain bool) {
	p.mu.Lock()
	none := p.lastChild == nil
	p.mu.Unlock()
	if none {
		return
	}
	children := p.children()
	if s, ok := any(p.act).(*supervisor); ok && s.opts.Strategy != Dynamic {
		for _, k := range children {
			k.conclude(drain)
		}
		return
	}
	for _, k := range children {
		k.requestEnd(Shutdown, drain)
	}
	for _, k := range children {
		if k.awaitEnd() {
			k.ops.finalize(Shutdown)
		}
	}
}

// conclude stops c for good and waits for it.
func (c *core) conclude(drain bool) {
	c.requestEnd(Shutdown, drain)
	if c.awaitEnd() {
		c.ops.finalize(Shutdown)
	}
}

// requestEnd asks c to end. With drain it handles the messages in its mailbox first.
func (c *core) requestEnd(reason error, drain bool) {
	if drain && c.ops.post(User, &extra{task: func() error {
		c.mu.Lock()
		c.state.step(onDrain)
		c.mu.Unlock()
		return reason
	}}) {
		return
	}
	c.ops.signal(signal{kind: stopSignal, reason: reason})
}

// awaitEnd waits until the incarnation of c has ended. If it has not when its
// grace is over, it is left behind, and awaitEnd returns false.
func (c *core) awaitEnd() bool {
	ended := c.ending()
	if ended == nil {
		return true
	}
	grace := c.ops.grace()
	if grace < 0 {
		<-ended
		return true
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-ended:
		return true
	case <-t.C:
		c.node.abandon(c)
		return false
	}
}

// tell reports the end to linked and monitoring actors.
func (p *process[M]) tell(last *coreExtras, reason error) {
	for other := range last.links {
		other.mu.Lock()
		if other.coreExtras != nil {
			delete(other.coreExtras.links, &p.core)
		}
		other.mu.Unlock()
		if other.ops != nil {
			other.ops.signal(signal{kind: exitSignal, from: &p.core, reason: reason})
		}
	}
	for far := range last.far {
		if t, err := p.node.carrier(far); err == nil {
			p.node.harmless(func() { t.Exit(p.exact(), far, reason) })
		}
	}
	for w := range last.watching {
		p.node.harmless(w.forget)
	}
	for w := range last.watchers {
		p.node.harmless(func() { w.notify(reason) })
	}
}

func (p *process[M]) finalize(reason error) {
	if p.terminate(onFinalize, reason) {
		p.finish()
	}
}

// terminate closes the mailbox of an actor whose incarnation has ended and makes
// dead letters of the messages in it. It does nothing and returns false if the actor
// is in a phase that does not allow e, which is terminate or finalize: it has been
// terminated, or it still runs and will do so itself.
func (p *process[M]) terminate(e lifeEvent, reason error) bool {
	p.mu.Lock()
	if !p.state.can(e) {
		p.mu.Unlock()
		return false
	}
	p.state.step(e)
	left := p.emptyLocked()
	names := p.more().names // kept, for messages about the dead
	p.coreExtras.reason = reason
	p.act, p.fresh, p.own = nil, nil, nil
	p.mu.Unlock()

	p.node.forget(&p.core, names)
	for _, e := range left {
		_ = p.refuse(e, ErrStopped)
	}
	return true
}

// emptyLocked removes and returns all messages in the mailbox, oldest first, and
// fails the senders that wait.
func (p *process[M]) emptyLocked() []envelope[M] {
	var left []envelope[M]
	if x := p.express; x != nil {
		left = append(left, x.urgent...)
		left = append(left, x.system...)
		p.express = nil
		p.expressed.Store(false)
	}
	if p.own != nil {
		left = append(left, p.own.stash...)
		left = append(left, p.own.front...)
		p.own.stash, p.own.front = nil, nil
	}
	if p.cur != nil {
		at := p.at.Load()
		left = append(left, p.cur.slots[at:]...)
		p.read += uint64(at)
		p.at.Store(0)
		p.cur = nil
	}
	for c := p.queue.take(); c != nil; c = p.queue.take() {
		left = append(left, c.slots...)
	}
	p.queue = queue[M]{}
	if b := p.bounded; b != nil {
		waiting := b.waiting
		b.waiting = nil
		for e, ok := b.pop(); ok; e, ok = b.pop() {
			left = append(left, e)
		}
		for _, s := range waiting {
			if s.gone {
				left = append(left, s.e)
			}
			s.done <- ErrStopped
		}
	}
	return left
}

// refuse makes a dead letter of a message that cannot be handled.
func (p *process[M]) refuse(e envelope[M], cause error) error {
	if e.x != nil && e.x.task != nil {
		return cause
	}
	return unplaced(p.node, p.address(), e, cause)
}

// unplaced makes a dead letter of a message that came into no mailbox, on node n,
// if that is known.
func unplaced[M any](n *Node, to Address, e envelope[M], cause error) error {
	if e.x != nil && e.x.asked != nil {
		e.x.asked.abandon(e.x.ticket, to, cause)
	}
	if n != nil {
		n.deadLetter(func() DeadLetter { return DeadLetter{To: to, Message: e.m, Reason: cause, Time: time.Now()} })
	}
	return fault("send to", to, cause)
}

// overflow applies the mailbox's policy to a message that finds it full. The
// caller holds p.mu; overflow unlocks it.
func (p *process[M]) overflow(ctx context.Context, e envelope[M]) error {
	b := p.bounded
	switch p.set.Overflow {
	case Block:
		return p.await(ctx, e)
	case DropOldest:
		oldest, _ := b.pop()
		b.push(e)
		p.wake()
		_ = p.refuse(oldest, ErrMailboxFull)
		return nil
	case DropNewest:
		p.mu.Unlock()
		_ = p.refuse(e, ErrMailboxFull)
		return nil
	case Divert:
		p.mu.Unlock()
		return p.set.Fallback.(Ref[M]).put(ctx, User, e)
	}
	p.mu.Unlock()
	return p.refuse(e, ErrMailboxFull)
}

// await waits for room in a bounded mailbox. The caller holds p.mu; await unlocks it.
func (p *process[M]) await(ctx context.Context, e envelope[M]) error {
	own, inside := ctx.(*Context[M])
	if inside && own.self == p || ctx == nil {
		p.mu.Unlock() // waiting for itself, it would never return
		return p.refuse(e, ErrMailboxFull)
	}
	_, far := ctx.(arriving)
	s := &sender[M]{e: e, done: make(chan error, 1), gone: far && len(p.bounded.waiting) < maxArrivals}
	p.bounded.waiting = append(p.bounded.waiting, s)
	p.wake()
	if s.gone {
		return nil
	}
	select {
	case err := <-s.done:
		if err != nil {
			return p.refuse(e, err)
		}
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	left := p.bounded.leave(s)
	p.mu.Unlock()
	if left {
		return p.refuse(e, endOf(ctx, time.Time{}, "room in the mailbox"))
	}
	if err := <-s.done; err != nil {
		return p.refuse(e, err)
	}
	return nil
}

// abandon leaves an actor behind that did not stop in time: it still runs, but
// its names are free, and nobody waits for it.
func (n *Node) abandon(c *core) {
	report(n.log.Warn, "actor did not stop in time and is left behind", slog.String("actor", c.address().String()))
	c.mu.Lock()
	late := c.state.release()
	var names []string
	if c.coreExtras != nil {
		names, c.coreExtras.names = c.coreExtras.names, nil
	}
	c.mu.Unlock()
	for _, name := range names {
		n.names.CompareAndDelete(name, c)
	}
	if late {
		c.ops.finalize(Shutdown)
	}
}

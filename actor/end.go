package actor

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"
)

// An incarnation ends in these steps. The goroutine that has the actor takes them; see state.go for
// the phases.
//
//  1. The phase becomes ending (closing after the passivation of an unsupervised actor), and the
//     Done channel closes.
//  2. The children end; those that do not within their Grace are left behind (abandon).
//  3. Become is undone, and the Stop method is called, unless the reason is Killed.
//  4. The question of the message that was being handled fails with ErrNoReply; the observer is
//     called, and a crash is logged.
//  5. part takes links and monitors from the actor; the phase becomes suspended or ended.
//
// The last steps differ. An unsupervised actor is terminated: its names become free and its mailbox
// becomes dead letters (6), then links and monitors are notified (7), then it leaves its parent and
// the channel ended closes (8). Step 6 is before 7 so that the function of a monitor can register
// the name again.
//
// A supervised actor notifies links and monitors (6), reports to its supervisor (7), and closes the
// channel ended (8). It is suspended from step 5 on, so a supervisor that restarts its siblings may
// restart it before 8. Therefore steps 6 to 8 use last and not the fields of the actor.

// end ends the incarnation of the actor, which the calling goroutine has.
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
	p.complete(reason)
}

// complete takes the steps from 4 on. Only the goroutine that has the actor calls it, or the one
// that replaces it because the Stop method has ended it.
func (p *process[M]) complete(reason error) {
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
	p.terminate(onTerminate, reason)
	p.tell(&last, reason)
	p.finish()
}

// discard ends an unsupervised actor that was not started. Its value is not stopped, and the observer
// is not called.
func (p *process[M]) discard() {
	p.mu.Lock()
	p.state.step(onEnd)
	p.cancelLocked()
	p.mu.Unlock()
	last, _, _ := p.part(Normal)
	p.terminate(onTerminate, Normal)
	p.tell(&last, Normal)
	p.finish()
}

// judge returns the reason and whether it is a crash (see IsCrash). A reason whose methods panic,
// such as a nil pointer in an error, is replaced by a PanicError, so that later uses of it are
// safe.
func judge(reason error) (safe error, crash bool) {
	if err := guard(func() error { crash = IsCrash(reason); _ = reason.Error(); return nil }); err != nil {
		return err, true
	}
	return reason, crash
}

// part takes links, monitors and the other extras of the incarnation from the actor and returns
// them in last, for the caller to notify. inc is the number of the incarnation that has ended. A
// supervised actor is suspended when part returns: its supervisor may restart it at any time.
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

// finish removes a dead actor from its parent and wakes the goroutines that wait for its end.
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

// callStop calls the Stop method of the actor, if it has one, and returns reason, or the panic of
// the Stop method. It does not return if runtime.Goexit in the Stop method ends the goroutine: then
// another one completes the end, with Exited.
func (p *process[M]) callStop(reason error) (outcome error) {
	s, ok := p.act.(Stopper[M])
	if !ok {
		return reason
	}
	return guardExit(func() error {
		s.Stop(&p.ctx, reason)
		return reason
	}, func() { p.complete(Exited) })
}

// guard calls f and returns its error; a panic becomes a PanicError. runtime.Goexit inside of f
// ends the calling goroutine: guard does not return then.
func guard(f func() error) error { return guardExit(f, nil) }

// guardExit is guard, but if runtime.Goexit inside of f ends the calling goroutine, another goroutine
// calls exited, unless that is nil.
func guardExit(f func() error, exited func()) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		} else if exited != nil {
			go exited()
		}
	}()
	err = f()
	returned = true
	return err
}

// endChildren stops all children and waits for each as long as its Grace allows. The children of a
// supervisor that is not Dynamic stop one after another, the newest first, as in OTP. All others
// are asked to end at once, the newest first.
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

// conclude stops c for good and waits for it as long as its Grace allows.
func (c *core) conclude(drain bool) {
	c.requestEnd(Shutdown, drain)
	if c.awaitEnd() {
		c.ops.finalize(Shutdown)
	}
}

// requestEnd asks c to end with reason, before any other message, or, with drain, after the User
// messages that are in its mailbox now. It does not wait.
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

// awaitEnd waits until the incarnation of c has ended. If its Grace is over before that, awaitEnd
// leaves c behind and returns false.
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

// tell notifies links and monitors of the end: linked actors of this node, then those of other
// nodes, then monitors. It also removes the monitors that the incarnation had set. Nothing of it
// waits for another actor, but Transport.Exit may wait for a connection.
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

// finalize ends a suspended actor for good; see ops. Links and monitors were notified when its
// incarnation ended.
func (p *process[M]) finalize(reason error) {
	if p.terminate(onFinalize, reason) {
		p.finish()
	}
}

// terminate closes the mailbox of an actor whose incarnation has ended, frees its names and its
// number, tells monitors that were set after the end, and makes dead letters of the messages in the
// mailbox. e is onTerminate from the goroutine that has the actor, or onFinalize from the
// supervisor. If the phase does not allow e, terminate does nothing and returns false: the actor was
// terminated before, or it runs and terminates itself.
func (p *process[M]) terminate(e lifeEvent, reason error) bool {
	p.mu.Lock()
	if !p.state.can(e) {
		p.mu.Unlock()
		return false
	}
	p.state.step(e)
	left := p.emptyLocked()
	names := p.more().names // not cleared: addresses in reports still have the name
	late := p.coreExtras.watchers
	p.coreExtras.watchers = nil
	p.coreExtras.reason = reason
	p.act, p.fresh, p.own = nil, nil, nil
	p.mu.Unlock()

	p.node.forget(&p.core, names)
	for w := range late {
		p.node.harmless(func() { w.notify(Missing) })
	}
	for _, e := range left {
		_ = p.refuse(e, ErrStopped)
	}
	return true
}

// emptyLocked removes all envelopes from the mailbox and returns them in the order in which they
// would have been handled, the stashed ones among them. Senders that wait for room get ErrStopped.
// Signals are dropped. The caller holds p.mu.
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

// refuse makes a dead letter of an envelope that cannot be handled and returns an error with the
// cause. A task is dropped without a dead letter.
func (p *process[M]) refuse(e envelope[M], cause error) error {
	if e.x != nil && e.x.task != nil {
		return cause
	}
	return unplaced(p.node, p.address(), e, cause)
}

// unplaced makes a dead letter of a message on node n, unless n is nil, fails the question that it
// asks, and returns an error with the cause, for the sender.
func unplaced[M any](n *Node, to Address, e envelope[M], cause error) error {
	if e.x != nil && e.x.asked != nil {
		e.x.asked.abandon(e.x.ticket, to, cause)
	}
	if n != nil {
		n.deadLetter(func() DeadLetter { return DeadLetter{To: to, Message: e.m, Reason: cause, Time: time.Now()} })
	}
	return fault("send to", to, cause)
}

// overflow applies the overflow policy to a message that finds the mailbox full, or others waiting
// for room. The caller holds p.mu; overflow unlocks it.
func (p *process[M]) overflow(ctx context.Context, e envelope[M]) error {
	b := p.bounded
	switch p.set.Overflow {
	case Block:
		return p.await(ctx, e)
	case DropOldest:
		// If only tasks wait, e goes beyond the limit: the next message drops it.
		oldest, dropped := b.popMessage()
		b.push(e)
		p.wake()
		if dropped {
			_ = p.refuse(oldest, ErrMailboxFull)
		}
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

// await waits for room in a bounded mailbox (the policy Block). The caller holds p.mu; await
// unlocks it. It does not wait, and refuses e, if ctx is nil or that of the actor itself. For a
// transport (see Inbound.Arriving) it returns at once with e in the list of those that wait, unless
// that list has maxArrivals entries already.
func (p *process[M]) await(ctx context.Context, e envelope[M]) error {
	s, err := p.queueSender(ctx, e) // unlocks
	if s == nil {
		return err
	}
	return p.awaitRoom(ctx, s)
}

// queueSender is the first half of await, which does not wait. If there is nothing to wait for, it
// returns nil and the result of await.
func (p *process[M]) queueSender(ctx context.Context, e envelope[M]) (*sender[M], error) {
	own, inside := ctx.(*Context[M])
	if inside && own.self == p || ctx == nil {
		p.mu.Unlock() // an actor that waits for itself would never return
		return nil, p.refuse(e, ErrMailboxFull)
	}
	_, far := ctx.(arriving)
	s := &sender[M]{e: e, done: make(chan error, 1), gone: far && len(p.bounded.waiting) < maxArrivals}
	p.bounded.waiting = append(p.bounded.waiting, s)
	p.wake()
	if s.gone {
		return nil, nil
	}
	return s, nil
}

// awaitRoom waits until the envelope of s is in the mailbox.
func (p *process[M]) awaitRoom(ctx context.Context, s *sender[M]) error {
	select {
	case err := <-s.done:
		if err != nil {
			return p.refuse(s.e, err)
		}
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	left := p.bounded.leave(s)
	p.mu.Unlock()
	if left {
		return p.refuse(s.e, endOf(ctx, time.Time{}, "room in the mailbox"))
	}
	if err := <-s.done; err != nil {
		return p.refuse(s.e, err)
	}
	return nil
}

// abandon leaves an actor behind that did not stop in time. It still runs, but its names are free,
// it is not supervised any more, and nobody but Node.Stop waits for it.
func (n *Node) abandon(c *core) {
	n.behind.add(c)
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

package actor

import (
	"context"
	"sync/atomic"
	"time"
)

// Down is the report of a monitor: an incarnation of the monitored actor has ended.
type Down struct {
	Ref    AnyRef // as it was passed to Monitor
	Reason error  // the exit reason; Missing if the actor had ended before, NodeDown if its node is lost
}

// Exit is a trapped exit: a linked actor has ended.
type Exit struct {
	From   Address
	Reason error
}

// watch is one monitor. It is in target.watchers, and in by.watching if an actor has set it.
type watch struct {
	target *core              // the monitored actor; nil if it is on another node or there is none
	by     *core              // the actor that set the monitor; nil for Wait and for the runtime's own
	over   atomic.Bool        // the monitor has been taken back, or has reported
	cancel func()             // takes the monitor of an actor of another node back, else nil
	notify func(reason error) // called once at most, by any goroutine, with no lock held
}

// Monitor calls f when an incarnation of another actor ends, whatever the exit reason. f is called
// in the turn of c's actor, at priority [System], once; an error of f ends the actor. If the other
// has ended before, or is ended and waits for its restart, f is called with [Missing] (noproc). To
// see the end of the next incarnation after a restart, monitor the actor again.
//
// The monitor ends with the incarnation that set it, or by cancel, which is for the actor's turn:
// once cancel has returned, f is not called.
func (c *Context[M]) Monitor(other AnyRef, f func(Down) error) (cancel func()) {
	p := c.self
	w := &watch{by: &p.core}
	inc := p.incarnation()
	w.notify = func(reason error) {
		p.post(System, &extra{inc: inc, task: func() error {
			if w.over.Load() {
				return nil
			}
			w.drop()
			return f(Down{Ref: other, Reason: reason})
		}})
	}
	p.mu.Lock()
	r := p.more()
	if r.watching == nil {
		r.watching = make(map[*watch]struct{})
	}
	r.watching[w] = struct{}{}
	p.mu.Unlock()
	if n := other.elsewhere(); n != nil {
		if t, err := n.carrier(other.Address()); err == nil {
			w.cancel = t.Monitor(p.id, other.Address(), w.notify)
			return w.drop
		}
	}
	w.begin(other.core())
	return w.drop
}

// begin sets the monitor on target. If target is nil or its incarnation has ended, it reports
// Missing; for an actor that will not be restarted, once its names are free.
func (w *watch) begin(target *core) {
	w.target = target
	if target == nil {
		w.notify(Missing)
		return
	}
	target.mu.Lock()
	if target.state.past() && target.state.phase != phaseEnded {
		target.mu.Unlock()
		w.notify(Missing)
		return
	}
	r := target.more()
	if r.watchers == nil {
		r.watchers = make(map[*watch]struct{})
	}
	r.watchers[w] = struct{}{}
	target.mu.Unlock()
}

// drop takes the monitor back on both sides.
func (w *watch) drop() {
	w.over.Store(true)
	w.forget()
	w.by.mu.Lock()
	defer w.by.mu.Unlock()
	if w.by.coreExtras != nil {
		delete(w.by.coreExtras.watching, w)
	}
}

// forget removes the monitor from the monitored actor.
func (w *watch) forget() {
	w.over.Store(true)
	if w.cancel != nil {
		w.cancel()
	}
	if w.target == nil {
		return
	}
	w.target.mu.Lock()
	defer w.target.mu.Unlock()
	if w.target.coreExtras != nil {
		delete(w.target.coreExtras.watchers, w)
	}
}

// Wait waits until the present incarnation of an actor has ended and returns the exit reason; it
// returns [Missing] if there is none, and NodeDown if the actor's node is lost. It fails with
// Canceled if ctx ends first, Unavailable if no transport reaches the actor's node. Any goroutine
// may call it.
func Wait(ctx context.Context, ref AnyRef) (reason, err error) {
	done := make(chan error, 1)
	w := &watch{notify: func(reason error) { done <- reason }}
	if n := ref.elsewhere(); n != nil {
		t, err := n.carrier(ref.Address())
		if err != nil {
			return nil, err
		}
		w.cancel = t.Monitor(senderOf(ctx), ref.Address(), w.notify)
	} else {
		w.begin(ref.core())
	}
	began := time.Now()
	select {
	case reason = <-done:
		return reason, nil
	case <-ctx.Done():
		w.forget()
		return nil, fault("wait for", ref.Address(), endOf(ctx, began, "the actor to stop"))
	}
}

// Link links the actor with another, both ways, as in Erlang: when one ends for another reason than
// [Normal], the other ends for the same reason, unless it traps exits. An actor that ends with
// [Killed] because of a link ends without its Stop method, too. To link to an actor that has ended,
// is ending, or waits for its restart is an exit with [Missing] (noproc). Linking twice is linking
// once. A link ends with either incarnation: a restarted actor has none.
func (c *Context[M]) Link(other AnyRef) {
	p, o := &c.self.core, other.core()
	if o == p {
		return
	}
	if n := other.elsewhere(); n != nil {
		far := other.Address()
		if t, err := n.carrier(far); err == nil && p.linkFar(far) && t.Link(p.exact(), far) == nil {
			return
		}
		p.unlinkFar(far)
		c.self.signal(signal{kind: exitSignal, far: far, reason: NodeDown})
		return
	}
	p.addLink(o)
	if o == nil || !o.addLink(p) {
		p.removeLink(o)
		c.self.signal(signal{kind: exitSignal, from: o, reason: Missing})
	}
}

// Unlink ends the link with another actor. Unlike unlink of Erlang it does not take back an exit
// that waits already: that one is still handled.
func (c *Context[M]) Unlink(other AnyRef) {
	p, o := &c.self.core, other.core()
	if n := other.elsewhere(); n != nil {
		p.unlinkFar(other.Address())
		if t, err := n.carrier(other.Address()); err == nil {
			t.Unlink(p.exact(), other.Address())
		}
		return
	}
	if o == nil || o == p {
		return
	}
	o.removeLink(p)
	p.removeLink(o)
}

// TrapExit makes the actor trap exits: an exit of a linked actor, also one with [Normal], becomes a
// call of f in the actor's turn, before all messages. An error of f ends the actor. nil turns it
// off, and so does the end of the incarnation. Only exits of links are trapped: Stop, Drain and
// Kill of an [AnyRef] and the end of the parent are not.
func (c *Context[M]) TrapExit(f func(Exit) error) {
	c.self.mu.Lock()
	defer c.self.mu.Unlock()
	c.self.more().trap = f
}

// addLink notes one side of a link. It returns false if c is not alive.
func (c *core) addLink(other *core) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.state.alive() {
		return false
	}
	r := c.more()
	if r.links == nil {
		r.links = make(map[*core]struct{})
	}
	r.links[other] = struct{}{}
	return true
}

func (c *core) removeLink(other *core) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.coreExtras != nil {
		delete(c.coreExtras.links, other)
	}
}

// exited handles the exit of a linked actor. It returns the exit reason if this actor must end,
// else nil.
func (p *process[M]) exited(s signal) error {
	p.mu.Lock()
	var trap func(Exit) error
	if p.coreExtras != nil {
		trap = p.coreExtras.trap
	}
	p.mu.Unlock()
	switch {
	case trap != nil:
		e := Exit{From: s.far, Reason: s.reason}
		if s.from != nil {
			e.From = s.from.address()
		}
		return trap(e)
	case s.reason == Normal:
		return nil
	}
	return s.reason
}

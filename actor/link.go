package actor

import (
	"context"
	"sync/atomic"
	"time"
)

// Down says that a monitored actor has ended.
type Down struct {
	Ref    AnyRef
	Reason error // see the reasons of this package; Missing if it was gone before
}

// Exit says that a linked actor has ended.
type Exit struct {
	From   Address
	Reason error
}

// watch is one monitor.
type watch struct {
	target *core
	by     *core // whose monitor it is; nil for Wait
	over   atomic.Bool
	cancel func() // of a monitor of an actor elsewhere
	notify func(reason error)
}

// Monitor calls f in the actor's turn, before user messages, when the other has
// ended for any reason, with its reason; at once, with [Missing], if it has ended
// for good. f is called once: to watch an actor that its supervisor has restarted,
// monitor it again. A monitor ends with the actor that set it, and by cancel: once
// that has returned in the actor's turn, f is not called.
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

// begin watches target, and reports it Missing if it has ended.
func (w *watch) begin(target *core) {
	w.target = target
	if target == nil {
		w.notify(Missing)
		return
	}
	target.mu.Lock()
	if target.state.past() {
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

// drop ends the monitor from the side of the one who set it.
func (w *watch) drop() {
	w.over.Store(true)
	w.forget()
	w.by.mu.Lock()
	defer w.by.mu.Unlock()
	if w.by.coreExtras != nil {
		delete(w.by.coreExtras.watching, w)
	}
}

// forget removes the monitor from the watched actor.
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

// Wait waits until an actor has ended and returns the reason; [Missing] if it had
// ended before. It fails with Canceled when ctx ends first.
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

// Link links the actor with another, both ways: when one ends for another reason
// than [Normal], so does the other, for the same reason, unless it traps exits. If
// the other is gone, that is an exit with [Missing]. Linking twice is linking once.
// A link ends with either incarnation.
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

// Unlink ends the link with another. An exit that is on its way still comes.
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

// TrapExit turns exits of linked actors into calls of f, in the actor's turn,
// before all messages; nil turns that off. A parent or [AnyRef] that ends the actor is never trapped.
func (c *Context[M]) TrapExit(f func(Exit) error) {
	c.self.mu.Lock()
	defer c.self.mu.Unlock()
	c.self.more().trap = f
}

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

// exited handles the exit of a linked actor.
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

package actor

import (
	"context"
	"log/slog"
	"time"
)

// Context is an actor's view of itself and its node. Its methods are for the
// actor's own turn (inside Start, Receive, Stop, and functions that the runtime
// calls for it), except those of [context.Context]: as that it ends when the actor
// is asked to end, and may be handed to other goroutines and to calls that block.
type Context[M any] struct {
	self *process[M]
}

func (c *Context[M]) spawner() (*Node, *core) { return c.self.node, &c.self.core }

// Self returns a reference to the actor.
func (c *Context[M]) Self() Ref[M] { return Ref[M]{c.self} }

// Node returns the actor's node.
func (c *Context[M]) Node() *Node { return c.self.node }

// Log returns the node's logger with the actor's address.
func (c *Context[M]) Log() *slog.Logger {
	return c.self.node.log.With("actor", c.self.address().String())
}

// Incarnation returns 1, and one more after each restart.
func (c *Context[M]) Incarnation() int {
	c.self.mu.Lock()
	defer c.self.mu.Unlock()
	return int(c.self.inc)
}

// Stop ends the actor with a reason when the present call returns, before any
// other message. A nil reason means [Normal].
func (c *Context[M]) Stop(reason error) {
	if reason == nil {
		reason = Normal
	}
	c.self.halt = reason
	c.self.expressed.Store(true)
}

// Become gives the next messages to another behaviour of the same actor, until
// Unbecome. The value that the actor was spawned with keeps its Stop method.
func (c *Context[M]) Become(a Actor[M]) {
	x := c.self.extras()
	if x.plain == nil {
		x.plain = c.self.act
	}
	c.self.become(a)
}

// Unbecome gives the next messages to the value that the actor was spawned with.
func (c *Context[M]) Unbecome() {
	if x := c.self.own; x != nil && x.plain != nil {
		c.self.become(x.plain)
		x.plain = nil
	}
}

// become sets the value that gets messages. Others may look at its type.
func (p *process[M]) become(a Actor[M]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.act = a
}

// Stash puts a message aside until [Context.Unstash], usually the one that is
// being handled: then a question that it asks stays open. It fails with
// Unavailable beyond [MaxStash].
func (c *Context[M]) Stash(m M) error {
	p := c.self
	x := p.extras()
	if len(x.stash) >= MaxStash {
		return fault("stash in", p.address(), ErrMailboxFull)
	}
	e := envelope[M]{m: m}
	if p.asking != nil {
		e.x = &extra{asked: p.asking, ticket: p.ticket}
		p.asking = nil
	}
	x.stash = append(x.stash, e)
	return nil
}

// Unstash puts all stashed messages before those that wait in the mailbox, in the order they came.
func (c *Context[M]) Unstash() {
	if x := c.self.own; x != nil {
		x.front = append(x.stash, x.front...)
		x.stash = nil
	}
}

// Register gives the actor one more name. It fails with Exists if the name is taken.
func (c *Context[M]) Register(name string) error { return c.self.register(name) }

// Unregister takes a name away, and reports whether the actor had it.
func (c *Context[M]) Unregister(name string) bool { return c.self.unregister(name) }

// Deadline returns no deadline.
func (c *Context[M]) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns a channel that is closed when the actor is asked to end, before it
// does. It is for this incarnation.
func (c *Context[M]) Done() <-chan struct{} {
	p := c.self
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.more()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.closed || p.state.past() {
			close(r.done)
		}
	}
	return r.done
}

// Err returns context.Canceled once Done is closed.
func (c *Context[M]) Err() error {
	p := c.self
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.state.alive() || p.coreExtras != nil && p.coreExtras.closed {
		return context.Canceled
	}
	return nil
}

// Value returns what the trace of the message that is being handled says; see [Tracer].
func (c *Context[M]) Value(key any) any {
	if key == (senderKey{}) {
		return &c.self.core
	}
	if ctx := c.self.trace.Load(); ctx != nil {
		return (*ctx).Value(key)
	}
	return nil
}

package actor

import (
	"context"
	"log/slog"
	"time"
)

// Context gives an actor access to itself and its node. Only the actor's turn may use it: Start,
// Receive, Stop, and the functions that the actor gave to the runtime.
//
// It is also a [context.Context], which ends when the actor is asked to end. As such any goroutine
// may use it, and the actor passes it to calls that block. There is one Context for all
// incarnations of an actor: after a restart, Err returns nil again and Done another channel. A
// goroutine that may outlive its incarnation must call Done in the actor's turn and keep the
// channel.
type Context[M any] struct {
	self *process[M]
}

func (c *Context[M]) spawner() (*Node, *core) { return c.self.node, &c.self.core }

// Self returns a reference to the actor.
func (c *Context[M]) Self() Ref[M] { return Ref[M]{c.self} }

// Node returns the actor's node.
func (c *Context[M]) Node() *Node { return c.self.node }

// Log returns the node's logger with the attribute actor, the address of the actor.
func (c *Context[M]) Log() *slog.Logger {
	return c.self.node.log.With("actor", c.self.address().String())
}

// Incarnation returns the number of the present incarnation: 1, and one more after each restart.
func (c *Context[M]) Incarnation() int {
	c.self.mu.Lock()
	defer c.self.mu.Unlock()
	return int(c.self.inc)
}

// Stop ends the incarnation with an exit reason when the present call returns, before any other
// message is handled. A nil reason means [Normal]. If the present call returns an error, that is
// the reason instead. The last call of Stop counts.
func (c *Context[M]) Stop(reason error) {
	if reason == nil {
		reason = Normal
	}
	c.self.halt = reason
	c.self.expressed.Store(true)
}

// Become passes the messages after the present one to a, until Unbecome. It does not call a.Start.
// At the end of the incarnation the Stop method of the value that the incarnation began with is
// called, not that of a; a restart begins with a new value. Calls of Become do not nest.
func (c *Context[M]) Become(a Actor[M]) {
	x := c.self.extras()
	if x.plain == nil {
		x.plain = c.self.act
	}
	c.self.become(a)
}

// Unbecome passes the messages after the present one to the value that the incarnation began with.
func (c *Context[M]) Unbecome() {
	if x := c.self.own; x != nil && x.plain != nil {
		c.self.become(x.plain)
		x.plain = nil
	}
}

// become sets the value that gets messages. It takes the lock because other goroutines read the
// type of the value.
func (p *process[M]) become(a Actor[M]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.act = a
}

// Stash puts m aside until [Context.Unstash], as postpone does in gen_statem. m is usually the
// message that is being handled: the question that this one asks, if any, is stashed with m and
// stays open. A restart puts the stashed messages first into the mailbox; at the end of the actor
// they become dead letters. Stash fails with Unavailable if [MaxStash] messages are stashed.
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

// Unstash puts all stashed messages before the User messages that wait in the mailbox, in the order
// in which they were stashed.
func (c *Context[M]) Unstash() {
	if x := c.self.own; x != nil {
		x.front = append(x.stash, x.front...)
		x.stash = nil
	}
}

// Register gives the actor one more name on its node. It fails with Exists if the name is taken,
// Invalid if it cannot be a name. Names outlive restarts.
func (c *Context[M]) Register(name string) error { return c.self.register(name) }

// Unregister takes a name from the actor, and reports whether the actor had it.
func (c *Context[M]) Unregister(name string) bool { return c.self.unregister(name) }

// Deadline returns no deadline.
func (c *Context[M]) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns a channel that is closed when the present incarnation is asked to end or begins to
// end, before its Stop method is called.
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

// Err returns context.Canceled once the present incarnation is asked to end, else nil.
func (c *Context[M]) Err() error {
	p := c.self
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.state.alive() || p.coreExtras != nil && p.coreExtras.closed {
		return context.Canceled
	}
	return nil
}

// Value returns the value of a key in the context that the [Tracer] made for the message that is
// being handled, nil if there is none.
func (c *Context[M]) Value(key any) any {
	if key == (senderKey{}) {
		return &c.self.core
	}
	if ctx := c.self.trace.Load(); ctx != nil {
		return (*ctx).Value(key)
	}
	return nil
}

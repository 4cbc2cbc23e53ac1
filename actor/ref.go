package actor

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// Ref is a reference to an actor that takes messages of type M. It is a value:
// it can be copied, compared, put into messages and used by many goroutines. It
// stays good when a supervisor restarts the actor, and is of no use once the actor
// has stopped. The zero Ref refers to nobody.
type Ref[M any] struct {
	to target[M]
}

// target is whatever a Ref can refer to.
type target[M any] interface {
	put(ctx context.Context, p Priority, e envelope[M]) error
	offer(ctx context.Context, e envelope[M]) (woken runnable, err error)
	address() Address
	local() *core // nil if the actor is elsewhere
	asks() *askPools
}

// AnyRef is a [Ref] of any message type.
type AnyRef interface {
	Address() Address
	String() string
	// Stop ends the actor with [Shutdown] after the present message.
	Stop()
	// Drain ends it with [Shutdown] after all messages that wait now.
	Drain()
	// Kill ends it with [Killed] after the present message, without its Stop method.
	Kill()

	core() *core
	elsewhere() *Node // the node that sees it, if it is an actor of another
}

func (p *process[M]) local() *core    { return &p.core }
func (p *process[M]) asks() *askPools { return &p.typeState.asks }

// Send puts m into the actor's mailbox and returns. Messages of one sender
// arrive in order. An error says that m is certainly not in the mailbox: Closed if
// the actor has stopped, Unavailable if the mailbox is full; m is a dead letter then.
//
// ctx bounds the waiting for room in a mailbox with the policy [Block]; an actor
// passes its own [Context]. Otherwise Send never waits.
func (r Ref[M]) Send(ctx context.Context, m M) error {
	return r.put(ctx, User, envelope[M]{m: m})
}

// SendPriority is Send at a priority. Messages above [User] are never refused for lack of room.
func (r Ref[M]) SendPriority(ctx context.Context, p Priority, m M) error {
	if p > Urgent {
		return invalidf("priority %d: there is no such priority", p)
	}
	return r.put(ctx, p, envelope[M]{m: m})
}

func (r Ref[M]) put(ctx context.Context, prio Priority, e envelope[M]) error {
	if p, ok := r.to.(*process[M]); ok {
		if p.node.observed {
			e.x = p.node.observe(ctx, r, e.x)
		}
		return p.put(ctx, prio, e)
	}
	if r.to == nil {
		return fault("send to", Address{}, ErrStopped)
	}
	return r.to.put(ctx, prio, e)
}

// Address returns the actor's address, by name if it has one.
func (r Ref[M]) Address() Address {
	if r.to == nil {
		return Address{}
	}
	return r.to.address()
}

// String returns the address as text.
func (r Ref[M]) String() string {
	if r.to == nil {
		return "nobody"
	}
	return r.Address().String()
}

// IsZero reports whether r refers to nobody.
func (r Ref[M]) IsZero() bool { return r.to == nil }

// Stop ends the actor with [Shutdown] after the present message. See [Wait].
func (r Ref[M]) Stop() { r.order(OrderStop) }

// Kill ends the actor with [Killed] after the present message, without its Stop method.
func (r Ref[M]) Kill() { r.order(OrderKill) }

// Drain ends the actor with [Shutdown] after all messages that wait now.
func (r Ref[M]) Drain() { r.order(OrderDrain) }

func (r Ref[M]) order(o Order) {
	if far, ok := r.to.(remote[M]); ok {
		far.order(o)
	} else if c := r.core(); c != nil {
		c.order(o)
	}
}

func (r Ref[M]) elsewhere() *Node {
	if far, ok := r.to.(remote[M]); ok {
		return far.node
	}
	return nil
}

func (r Ref[M]) core() *core {
	if r.to == nil {
		return nil
	}
	return r.to.local()
}

// Lookup returns the actor of a name. It fails with NotFound if there is none,
// Invalid if it takes other messages than M.
func Lookup[M any](n *Node, name string) (Ref[M], error) {
	v, ok := n.names.Load(name)
	if !ok {
		return Ref[M]{}, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "look up " + n.name + "/" + name}
	}
	return refOf[M](v.(*core))
}

// Find returns the actor of an address on this node, if it still lives.
func Find[M any](n *Node, a Address) (Ref[M], error) {
	c := n.find(a)
	if c == nil || a.Start != 0 && a.Start != n.start {
		return Ref[M]{}, fault("find", a, ErrStopped)
	}
	return refOf[M](c)
}

func refOf[M any](c *core) (Ref[M], error) {
	p, ok := c.ops.(*process[M])
	if !ok {
		var m M
		return Ref[M]{}, invalidf("%s does not take messages of type %s", c.address(), fmt.Sprintf("%T", &m)[1:])
	}
	return Ref[M]{p}, nil
}

// Adapt returns a reference that turns each message with f and sends the result
// to r. f is called by the sender's goroutine, or, for timers and events, by one of the
// runtime: it may be called by several at once. If it panics, the message that it was given
// is a dead letter with a [*PanicError], which Send fails with too.
func Adapt[A, B any](r Ref[B], f func(A) B) Ref[A] {
	if r.to == nil {
		return Ref[A]{}
	}
	return Ref[A]{&adapter[A, B]{r, f}}
}

type adapter[A, B any] struct {
	ref Ref[B]
	f   func(A) B
}

func (a *adapter[A, B]) put(ctx context.Context, p Priority, e envelope[A]) error {
	turned, err := a.turn(e)
	if err != nil {
		return err
	}
	return a.ref.put(ctx, p, turned)
}

// turn makes the envelope that a.ref gets.
func (a *adapter[A, B]) turn(e envelope[A]) (turned envelope[B], err error) {
	if err := guard(func() error { turned.m = a.f(e.m); return nil }); err != nil {
		return turned, unplaced(a.ref.home(), a.address(), e, err)
	}
	turned.x = e.x
	return turned, nil
}

func (a *adapter[A, B]) address() Address { return a.ref.Address() }
func (a *adapter[A, B]) local() *core     { return a.ref.core() }
func (a *adapter[A, B]) asks() *askPools  { return a.ref.to.asks() }

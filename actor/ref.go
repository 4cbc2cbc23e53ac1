package actor

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// Ref is a reference to an actor that takes messages of type M: a typed pid. It is a value that can
// be copied, compared, put into messages and used by many goroutines. Unlike a pid it stays valid
// when a supervisor restarts the actor; once the actor has ended for good, sending to it fails. The
// zero Ref refers to no actor: sending to it fails with Closed, and leaves no dead letter.
type Ref[M any] struct {
	to target[M]
}

// target is the target of a Ref: a process, an alias, an adapter, the actor of a key, a router, a
// pool, or an actor of another node.
type target[M any] interface {
	// put is Send at a priority.
	put(ctx context.Context, p Priority, e envelope[M]) error
	// offer is put for spread: see process.offer.
	offer(ctx context.Context, e envelope[M]) (woken runnable, left rest, err error)
	address() Address
	// local returns the actor of this process to monitor, link or stop; nil if there is none:
	// it is on another node, or the target stands for several actors.
	local() *core
	// asks returns the pools of the questions to this target.
	asks() *askPools
}

// AnyRef is a [Ref] of any message type. All methods may be called by many goroutines; none waits
// for the actor. Those that end it do nothing if it has ended. They end an incarnation: whether a
// supervisor restarts the actor then depends on its [Restart] type, as after exit(Pid, Reason).
type AnyRef interface {
	Address() Address
	String() string
	// Stop ends the actor with [Shutdown] after the present message.
	Stop()
	// Drain ends the actor with [Shutdown] after the User messages that wait now.
	Drain()
	// Kill ends the actor with [Killed] after the present message, without its Stop method. It
	// cannot interrupt the present message: all that happens at once is that the actor's
	// [Context] ends.
	Kill()

	core() *core      // target.local, nil for the zero Ref
	elsewhere() *Node // the node through which an actor of another node is reached, else nil
}

func (p *process[M]) local() *core    { return &p.core }
func (p *process[M]) asks() *askPools { return &p.typeState.asks }

// Send puts m into the actor's mailbox and returns, as gen_server:cast does; unlike cast it reports
// that m was not put there. Messages of one sender to one receiver arrive in order.
//
// nil means that m is in the mailbox, or was treated as the [Overflow] policy says; for an actor of
// another node it means that the [Transport] has accepted m. An error means that m will not be
// handled, and m becomes a dead letter: Closed if the actor has ended, Unavailable if the mailbox
// is full or the node cannot be reached, Canceled if ctx ended while Send waited.
//
// Send waits only for room in a mailbox with the policy [Block], for a transport, and for the
// former actor of a key (see [Keyed.Ref]). ctx bounds that; an actor passes its own [Context], with
// which it never waits for its own mailbox.
func (r Ref[M]) Send(ctx context.Context, m M) error {
	return r.put(ctx, User, envelope[M]{m: m})
}

// SendPriority is Send at a priority. Messages above [User] find room in a full mailbox. It fails
// with Invalid if there is no such priority.
func (r Ref[M]) SendPriority(ctx context.Context, p Priority, m M) error {
	if p > Urgent {
		return invalidf("priority %d: there is no such priority", p)
	}
	return r.put(ctx, p, envelope[M]{m: m})
}

// put sends an envelope. The most frequent target, a process, is called directly.
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

// Address returns the actor's address, with its first name if it has one; zero for the zero Ref.
func (r Ref[M]) Address() Address {
	if r.to == nil {
		return Address{}
	}
	return r.to.address()
}

// String returns the address as text, "nobody" for the zero Ref.
func (r Ref[M]) String() string {
	if r.to == nil {
		return "nobody"
	}
	return r.Address().String()
}

// IsZero reports whether r is the zero Ref, which refers to no actor.
func (r Ref[M]) IsZero() bool { return r.to == nil }

// Stop ends the actor with [Shutdown] after the present message; see [AnyRef]. It does not wait for
// the end: [Wait] does.
func (r Ref[M]) Stop() { r.order(OrderStop) }

// Kill ends the actor with [Killed] after the present message, without its Stop method.
func (r Ref[M]) Kill() { r.order(OrderKill) }

// Drain ends the actor with [Shutdown] after the User messages that wait now.
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

// Lookup returns the actor that has a name on n now, as whereis does. It fails with NotFound if
// there is none, Invalid if the actor takes other messages than M.
func Lookup[M any](n *Node, name string) (Ref[M], error) {
	v, ok := n.names.Load(name)
	if !ok {
		return Ref[M]{}, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "look up " + n.name + "/" + name}
	}
	return refOf[M](v.(*core))
}

// Find returns the actor of an address on n: by number if the address has one, else by name. It
// does not compare a.Node with the name of n ([At] does). It fails with Closed if the actor has
// ended or a.Start is another incarnation of the node, Invalid if the actor takes other messages
// than M.
func Find[M any](n *Node, a Address) (Ref[M], error) {
	c := n.find(a)
	if c == nil || a.Start != 0 && a.Start != n.start {
		return Ref[M]{}, fault("find", a, ErrStopped)
	}
	return refOf[M](c)
}

// refOf returns a reference to c. It fails with Invalid if c takes other messages than M.
func refOf[M any](c *core) (Ref[M], error) {
	p, ok := c.ops.(*process[M])
	if !ok {
		var m M
		return Ref[M]{}, invalidf("%s does not take messages of type %s", c.address(), fmt.Sprintf("%T", &m)[1:])
	}
	return Ref[M]{p}, nil
}

// Adapt returns a reference that converts each message with f and sends the result to r. f is
// called by the goroutine of the sender, or, for timers, events and groups, by one of the runtime;
// several may call it at once. If f panics, its message becomes a dead letter, and Send fails with
// Internal, with a [*PanicError]. Monitor, Link and Stop reach the actor of r.
func Adapt[A, B any](r Ref[B], f func(A) B) Ref[A] {
	if r.to == nil {
		return Ref[A]{}
	}
	return Ref[A]{&adapter[A, B]{r, f}}
}

// adapter is the target of Adapt.
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

// turn makes the envelope for a.ref. If f panics, it makes a dead letter and returns the error.
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

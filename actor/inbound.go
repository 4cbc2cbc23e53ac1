package actor

import (
	"context"
	"reflect"
	"time"
)

// Inbound is what a transport calls on a node for the nodes it connects to.
type Inbound struct{ node *Node }

// Inbound returns the node's side for a [Transport].
func (n *Node) Inbound() Inbound { return Inbound{n} }

// maxArrivals is how many messages from other nodes may wait for room in a mailbox
// with the policy [Block] without anybody waiting with them.
const maxArrivals = 1024

// arriving is the context of what comes from other nodes.
type arriving struct{ context.Context }

// Arriving returns the context to deliver with. A transport brings messages for many actors,
// so it must not wait for a full mailbox: the message that would empty it may come later. So a
// mailbox with the policy [Block] takes some more messages, in their order, that come with such a
// context, before that waits, as long as ctx allows.
func (i Inbound) Arriving(ctx context.Context) context.Context { return arriving{ctx} }

// Delivery is a message that has come for an actor of this node.
type Delivery struct {
	To       Address
	Priority Priority
	// Message is the message, as decoded, if Encoded is nil. It must be the caller's own:
	// the references and replies in it are bound to the node (see [Ref.On]).
	Message any
	// Encoded decodes the message, if it is not nil.
	Encoded Encoded
	Data    []byte // what Encoded decodes; it is not kept
	// Question, if it is not zero, is where the answer to the message goes: if it is
	// dropped, [Transport.Answer] says so with [ErrNoReply].
	Question Address
	// Deadline is when nobody waits for the answer any more: from then on the message is
	// dropped. The zero time means never.
	Deadline time.Time
	// Trace is what rides on the message; see [Propagator].
	Trace []byte
}

// Encoded is how a message of one type is decoded.
type Encoded interface {
	// Type is the type of the message.
	Type() reflect.Type
	// Into decodes data into what v, a pointer to that type, points to.
	Into(data []byte, v any) error
	// Value decodes data.
	Value(data []byte) (any, error)
}

// Deliver puts a message into the mailbox of an actor of this node. It fails with
// Closed if the actor is gone, Canceled after the deadline, Invalid if it takes other messages, or with
// the error of Encoded; whatever the error, there is a dead letter then.
//
// ctx bounds the waiting for room in a mailbox with the policy [Block]: nil does not wait.
func (i Inbound) Deliver(ctx context.Context, d Delivery) error {
	c, err := i.find(d.To)
	if err == nil {
		return c.ops.deliver(ctx, d)
	}
	return i.Refuse(d, ErrStopped)
}

// Refuse makes a dead letter of a message that cannot be delivered, and answers its
// question; it returns what Deliver would.
func (i Inbound) Refuse(d Delivery, reason error) error {
	m, err := d.message()
	if err != nil {
		m = nil
	}
	return unplaced(i.node, d.To, envelope[any]{m: i.node.bind(m, 0), x: i.node.carriage(&d, 0)}, reason)
}

func (d *Delivery) message() (any, error) {
	if d.Encoded != nil {
		return d.Encoded.Value(d.Data)
	}
	return d.Message, nil
}

// carriage returns what rides on a message that has come for the actor by, nil for
// most messages.
func (n *Node) carriage(d *Delivery, by uint64) *extra {
	asks := d.Question != Address{}
	if !asks && !n.observed {
		return nil
	}
	x := new(extra)
	if asks {
		x.asked, x.until = &farAsked{n, d.Question, by}, d.Deadline
	}
	if n.observed {
		x.trail = &trail{sent: time.Now(), carried: n.extract(d.Trace)}
	}
	return x
}

// Answer answers a question that this node sent elsewhere. It fails with
// [ErrReplied] if nobody waits for it any more.
func (i Inbound) Answer(to Address, v any, err error) error {
	if to.Start != i.node.start {
		return ErrReplied
	}
	o, ok := i.node.questions.forget(to.ID)
	if !ok {
		return ErrReplied
	}
	return o.q.answerAny(o.ticket, i.node.bind(v, 0), err)
}

// Lost fails the questions that were sent to a node which is lost, with
// [ErrNoReply] and NodeDown. Links and monitors are the transport's.
func (i Inbound) Lost(node string) {
	for _, o := range i.node.questions.sentTo(node) {
		_ = o.q.answerAny(o.ticket, nil, fault("ask", Address{Node: node}, &noReply{NodeDown}))
	}
}

// Monitor calls f once, when an actor of this node has ended, with the reason: at
// once, with [Missing], if it is gone.
func (i Inbound) Monitor(to Address, f func(reason error)) (cancel func()) {
	w := &watch{notify: f}
	c, _ := i.find(to)
	w.begin(c)
	return w.forget
}

// Number returns the number of the actor that an address means now, 0 if there is none.
func (i Inbound) Number(of Address) uint64 {
	if c, err := i.find(of); err == nil {
		return c.id
	}
	return 0
}

// Link lets [Transport.Exit] be called for an actor of another node when an actor of this
// node has ended. It fails with [Missing] if that is gone.
func (i Inbound) Link(from, to Address) error {
	if c, err := i.find(to); err != nil || !c.linkFar(from) {
		return Missing
	}
	return nil
}

// Unlink takes Link back.
func (i Inbound) Unlink(from, to Address) {
	if c, err := i.find(to); err == nil {
		c.unlinkFar(from)
	}
}

// Exit reports to an actor of this node that one it is linked to has ended.
func (i Inbound) Exit(from, to Address, reason error) {
	if c, err := i.find(to); err == nil {
		c.unlinkFar(from)
		c.ops.signal(signal{kind: exitSignal, far: from, reason: reason})
	}
}

// Order ends an actor of this node.
func (i Inbound) Order(to Address, o Order) {
	if c, err := i.find(to); err == nil {
		c.order(o)
	}
}

// Undelivered makes a dead letter of a message that the transport had taken; the
// question that it asked, if that is not 0, fails.
func (i Inbound) Undelivered(to Address, m any, question uint64, reason error) {
	if o, ok := i.node.questions.forget(question); ok {
		_ = o.q.answerAny(o.ticket, nil, fault("ask", to, &noReply{reason}))
	}
	i.node.deadLetter(func() DeadLetter { return DeadLetter{To: to, Message: m, Reason: reason, Time: time.Now()} })
}

func (i Inbound) find(to Address) (*core, error) {
	c := i.node.find(to)
	if c == nil || to.Start != 0 && to.Start != i.node.start {
		return nil, fault("find", to, ErrStopped)
	}
	return c, nil
}

func (c *core) order(o Order) {
	switch o {
	case OrderDrain:
		c.requestEnd(Shutdown, true)
	case OrderKill:
		c.ops.signal(signal{kind: killSignal})
	default:
		c.ops.signal(signal{kind: stopSignal, reason: Shutdown})
	}
}

// linkFar notes that an actor of another node is linked to c.
func (c *core) linkFar(far Address) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.state.alive() {
		return false
	}
	r := c.more()
	if r.far == nil {
		r.far = make(map[Address]struct{})
	}
	r.far[far] = struct{}{}
	return true
}

func (c *core) unlinkFar(far Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.coreExtras != nil {
		delete(c.coreExtras.far, far)
	}
}

// exact returns the address of c by number.
func (c *core) exact() Address { return Address{Node: c.node.name, Start: c.node.start, ID: c.id} }

// deliver puts a message of any type into the mailbox.
func (p *process[M]) deliver(ctx context.Context, d Delivery) error {
	e := envelope[M]{x: p.node.carriage(&d, p.id)}
	err := p.decode(&d, &e.m)
	switch {
	case err != nil:
	case e.x != nil && e.x.expired():
		return p.refuse(e, context.DeadlineExceeded)
	default:
		return p.put(ctx, d.Priority, e)
	}
	m, broken := d.message()
	if broken != nil {
		m = nil
	}
	_ = unplaced(p.node, d.To, envelope[any]{m: m, x: e.x}, err)
	return err
}

// decode sets *m to the message of d, bound to this node. If actors of this type take
// messages of one type only, it is decoded where it stays: without an allocation of its own.
func (p *process[M]) decode(d *Delivery, m *M) error {
	t := reflect.TypeFor[M]()
	if d.Encoded == nil || d.Encoded.Type() != t {
		v, err := d.message()
		if err != nil {
			return err
		}
		typed, ok := as[M](p.node.bind(v, p.id))
		if !ok {
			return invalidf("%s takes messages of type %s, not %T", p.address(), t, v)
		}
		*m = typed
		return nil
	}
	into := p.typeState.landing()
	defer p.typeState.leave(into)
	if err := d.Encoded.Into(d.Data, &into.m); err != nil {
		return err
	}
	if into.bind != nil {
		into.bind(binding{p.node, p.id}, reflect.ValueOf(&into.m).Elem())
	}
	*m = into.m
	return nil
}

// as returns v as an M, which nil is if M is an interface.
func as[M any](v any) (m M, ok bool) {
	if v == nil {
		return m, reflect.TypeFor[M]().Kind() == reflect.Interface
	}
	m, ok = v.(M)
	return m, ok
}

// landing is where a message is decoded before it goes into a mailbox.
type landing[M any] struct {
	m    M
	bind binder
}

func (b *typeState[M]) landing() *landing[M] {
	if l, ok := b.landings.Get().(*landing[M]); ok {
		return l
	}
	return &landing[M]{bind: b.node.binders.of(reflect.TypeFor[M]())}
}

// leave takes back a landing. The message is the actor's now: nothing of it may be
// used for the next.
func (b *typeState[M]) leave(l *landing[M]) {
	var none M
	l.m = none
	b.landings.Put(l)
}

// expired reports whether nobody waits any more for what is asked.
func (x *extra) expired() bool { return !x.until.IsZero() && time.Now().After(x.until) }

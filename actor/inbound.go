package actor

import (
	"context"
	"reflect"
	"time"
)

// Inbound is the interface of a node for its [Transport]: the transport calls these methods for
// messages and requests from other nodes. All methods are safe for concurrent use. References and
// replies in values that are passed to them are bound to the node, in place.
type Inbound struct{ node *Node }

// Inbound returns the methods of the node for its [Transport].
func (n *Node) Inbound() Inbound { return Inbound{n} }

// maxArrivals is the number of messages that may wait for room in one mailbox with the policy Block
// before the delivery of another one waits.
const maxArrivals = 1024

// arriving marks the context of a delivery; see Arriving.
type arriving struct{ context.Context }

// Arriving returns a context for [Inbound.Deliver] and [Inbound.Broadcast].
//
// A transport delivers messages to many actors, so it must not wait for one full mailbox: the
// message that lets its actor go on may be behind this one. Therefore a mailbox with the policy
// [Block] accepts up to 1,024 messages beyond its limit that come with such a context. It keeps
// their order. Then the delivery waits, as long as ctx allows.
func (i Inbound) Arriving(ctx context.Context) context.Context { return arriving{ctx} }

// Delivery is a message from another node for an actor of this one.
type Delivery struct {
	To       Address
	Priority Priority
	// Message is the decoded message, if Encoded is nil. It belongs to the actor from then on.
	Message any
	// Encoded, if it is not nil, decodes the message from Data.
	Encoded Encoded
	Data    []byte // the encoded message; not used any more when Deliver has returned
	// Question is the address of the question that the message asks, zero if it asks none. If the
	// message becomes a dead letter, [Transport.Answer] is called with [ErrNoReply].
	Question Address
	// Deadline is the time at which the asker stops waiting: a message with a Question that is not
	// handled before that becomes a dead letter. The zero time means never.
	Deadline time.Time
	// Trace is the encoded trace of the message; see [Propagator].
	Trace []byte
}

// Encoded decodes messages of one type.
type Encoded interface {
	// Type returns the type of the messages.
	Type() reflect.Type
	// Into decodes data into the value that v, a pointer to the type, points to.
	Into(data []byte, v any) error
	// Value decodes data into a new value of the type.
	Value(data []byte) (any, error)
}

// Deliver puts a message into the mailbox of an actor of this node. It fails with Closed if the
// actor has ended, Canceled after the deadline, Invalid if the actor takes other messages,
// Unavailable if the mailbox is full, or with the error of Encoded. After any error the message is
// a dead letter.
//
// ctx bounds the waiting for room in a mailbox with the policy [Block]; nil does not wait. See
// [Inbound.Arriving].
func (i Inbound) Deliver(ctx context.Context, d Delivery) error {
	c, err := i.find(d.To)
	if err == nil {
		return c.ops.deliver(ctx, d)
	}
	return i.Refuse(d, ErrStopped)
}

// Refuse makes a dead letter of a message that cannot be delivered, for a reason, and fails its
// question with [ErrNoReply]. It returns an error that wraps reason, as Deliver would.
func (i Inbound) Refuse(d Delivery, reason error) error {
	m, err := d.message()
	if err != nil {
		m = nil
	}
	return unplaced(i.node, d.To, envelope[any]{m: i.node.bind(m, 0), x: i.node.carriage(&d, 0)}, reason)
}

// message returns the message, decoded.
func (d *Delivery) message() (any, error) {
	if d.Encoded != nil {
		return d.Encoded.Value(d.Data)
	}
	return d.Message, nil
}

// carriage returns the extra of the envelope of d for the actor with the number by: its question
// and its trail. It is nil for most messages.
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

// Answer answers a question that was asked on this node, once. It fails with [ErrReplied] if the
// question has been answered or nobody waits for it any more. A value of another type than the
// asker expects fails the question with Invalid.
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

// Lost fails all questions that were sent to a node, because it is lost, with [ErrNoReply] and
// NodeDown. The transport itself reports the loss to links and monitors.
func (i Inbound) Lost(node string) {
	for _, o := range i.node.questions.sentTo(node) {
		_ = o.q.answerAny(o.ticket, nil, fault("ask", Address{Node: node}, &noReply{NodeDown}))
	}
}

// Monitor calls f once, when the present incarnation of an actor of this node ends, with the exit
// reason, and at once, with [Missing], if there is none. The goroutine in which the actor ends
// calls f, which must not block.
func (i Inbound) Monitor(to Address, f func(reason error)) (cancel func()) {
	w := &watch{notify: f}
	c, _ := i.find(to)
	w.begin(c)
	return w.forget
}

// Number returns the number of the actor that an address refers to now, 0 if there is none.
func (i Inbound) Number(of Address) uint64 {
	if c, err := i.find(of); err == nil {
		return c.id
	}
	return 0
}

// Link notes that the actor at from, of another node, is linked to the actor at to, of this node:
// when the latter ends, [Transport.Exit] is called for the former. It fails with [Missing] if the
// actor at to is not alive.
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

// Exit reports to the actor at to, of this node, that the linked actor at from has ended.
func (i Inbound) Exit(from, to Address, reason error) {
	if c, err := i.find(to); err == nil {
		c.unlinkFar(from)
		c.ops.signal(signal{kind: exitSignal, far: from, reason: reason})
	}
}

// Order asks an actor of this node to end. It does not wait.
func (i Inbound) Order(to Address, o Order) {
	if c, err := i.find(to); err == nil {
		c.order(o)
	}
}

// Undelivered makes a dead letter of a message from this node that the transport had accepted and
// could not deliver. The question with the number, if it is not 0, fails with [ErrNoReply] and
// reason.
func (i Inbound) Undelivered(to Address, m any, question uint64, reason error) {
	if o, ok := i.node.questions.forget(question); ok {
		_ = o.q.answerAny(o.ticket, nil, fault("ask", to, &noReply{reason}))
	}
	i.node.deadLetter(func() DeadLetter { return DeadLetter{To: to, Message: m, Reason: reason, Time: time.Now()} })
}

// find returns the actor of an address on this node and of its present incarnation.
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

// linkFar notes that an actor of another node is linked to c. It returns false if c is not alive.
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

// exact returns the address of c by number, which no other actor will have.
func (c *core) exact() Address { return Address{Node: c.node.name, Start: c.node.start, ID: c.id} }

// deliver decodes a message and puts it into the mailbox; see Deliver.
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

// decode sets *m to the message of d, bound to this node. If M is the type of the message itself
// and no interface, the message is decoded into a landing, a pooled variable of type M, and copied
// into the envelope: it needs no allocation of its own.
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

// as returns v as an M. nil is an M only if M is an interface.
func as[M any](v any) (m M, ok bool) {
	if v == nil {
		return m, reflect.TypeFor[M]().Kind() == reflect.Interface
	}
	m, ok = v.(M)
	return m, ok
}

// landing is a variable into which a message is decoded before it goes into a mailbox, and the
// binder of its type.
type landing[M any] struct {
	m    M
	bind binder // nil if M holds no references
}

func (b *typeState[M]) landing() *landing[M] {
	if l, ok := b.landings.Get().(*landing[M]); ok {
		return l
	}
	return &landing[M]{bind: b.node.binders.of(reflect.TypeFor[M]())}
}

// leave puts a landing back into the pool. It clears it first: the memory that the message points
// to belongs to the actor, and the next message must not be decoded into it.
func (b *typeState[M]) leave(l *landing[M]) {
	var none M
	l.m = none
	b.landings.Put(l)
}

// expired reports whether the deadline of the question has passed.
func (x *extra) expired() bool { return !x.until.IsZero() && time.Now().After(x.until) }

package actor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
)

// A node reaches actors of other nodes through its Transport, which package cluster implements. The
// Transport of the sender's node encodes a message and carries it; on the other node the
// Transport decodes it and calls a method of Inbound:
//
//	node a                                              node b
//	Ref.Send -> remote.put -> Transport.Send     ...    Inbound.Deliver -> mailbox
//	Ask <- question <- Inbound.Answer            ...    Transport.Answer <- farQuestion <- Reply.Send
//	Context.Monitor -> Transport.Monitor         ...    Inbound.Monitor
//	Context.Link -> Transport.Link               ...    Inbound.Link
//	end of an actor -> Transport.Exit            ...    Inbound.Exit
//
// A question that leaves its node gets a number there (publish). The number is the ID of an
// Address, which the message carries in place of the Reply. The question stays in the table
// questions until it is answered, until the node is lost that it was sent to, or until a later
// publish finds that nobody waits for it.

// Transport carries messages, answers, monitors, links and exits to other nodes. On the other node
// it calls the methods of [Inbound].
//
// All calls from one actor to actors of one node must take effect there in their order, whichever
// methods they are and however the receiver is addressed. from is the number of that actor, 0 if
// the caller is no actor. All methods must be safe for concurrent use. Actors call most of them in
// their turn. They may block while a node is being connected; Send and Answer may also block while
// the other node accepts no more. Errors should be of package mainstem.
type Transport interface {
	// Send carries a message. An error means that the message will not arrive. If the message
	// is lost after Send has returned nil, the transport should call [Inbound.Undelivered]. An error
	// that wraps no *mainstem.Error, no error of this package and none of a context reaches the
	// sender as Unavailable.
	Send(ctx context.Context, m Outbound) error
	// Answer carries the answer to a question; err is nil or the error that [Reply.Fail] got.
	Answer(from uint64, to Address, v any, err error) error
	// Monitor sets a monitor: f is called once, when the incarnation has ended, with the exit
	// reason, or with NodeDown when the node is lost. cancel takes the monitor back.
	Monitor(from uint64, to Address, f func(reason error)) (cancel func())
	// Link and Unlink carry the other half of a link between an actor of this node and one of
	// another. Exit carries the end of an actor that is linked. When a node is lost, the
	// transport calls [Inbound.Exit] with NodeDown for all actors that are linked to its actors.
	Link(from, to Address) error
	Unlink(from, to Address)
	Exit(from, to Address, reason error)
	// Order carries Stop, Drain or Kill of a reference.
	Order(to Address, o Order)
}

// ErrRestarted: the actor has ended because its node was restarted: the reference is from an
// earlier incarnation of the node. It matches [ErrStopped]. Kind Closed.
var ErrRestarted = fmt.Errorf("%w: its node was restarted", ErrStopped)

// Outbound is a message for an actor of another node.
type Outbound struct {
	From     uint64 // the number of the actor that sends it, 0 if it is none
	To       Address
	Priority Priority
	Message  any
	// Question is the address of the question that the message asks, to which the answer goes;
	// zero if it asks none. Its node is this one, or, if the message was passed on by [Forward],
	// the node on which the question was asked.
	Question Address
	// Trace is the trace of the message, encoded by [Propagator.Inject], or nil.
	Trace []byte
}

// Order is a request of a reference to end its actor.
type Order uint8

// The orders.
const (
	OrderStop Order = iota
	OrderDrain
	OrderKill
)

var orderNames = [...]string{"stop", "drain", "kill"}

// String returns "stop", "drain" or "kill".
func (o Order) String() string {
	if int(o) < len(orderNames) {
		return orderNames[o]
	}
	return "unknown order"
}

// Connect sets the transport of the node, for as long as the node lives. It fails with Exists if
// the node has one.
func (n *Node) Connect(t Transport) error {
	if !n.transport.CompareAndSwap(nil, &t) {
		return &mainstem.Error{Kind: mainstem.KindExists, Op: "connect node " + n.name, Hint: "a node has one transport"}
	}
	return nil
}

// carrier returns the transport of n. It fails with ErrUnreachable if n is nil or has none.
func (n *Node) carrier(to Address) (Transport, error) {
	if n != nil {
		if t := n.transport.Load(); t != nil {
			return *t, nil
		}
	}
	return nil, fault("reach", to, ErrUnreachable)
}

// At returns a reference to the actor of an address on any node. For an actor of n it fails as
// [Find] does. Whether an actor of another node exists is known only when the reference is used.
// The reference for the zero Address is the zero Ref.
func At[M any](n *Node, a Address) (Ref[M], error) {
	switch {
	case a.IsZero():
		return Ref[M]{}, nil
	case a.Node == n.name:
		return Find[M](n, a)
	}
	return Ref[M]{remote[M]{n, a}}, nil
}

// On binds a decoded reference to node n, so that it can be used there: if the actor is one of n,
// the result refers to it directly, else it uses the transport of n. If the actor is one of n that
// has ended, sending to the result fails with Closed. Any other reference is returned as it is.
func (r Ref[M]) On(n *Node) Ref[M] {
	far, ok := r.to.(remote[M])
	if !ok {
		return r
	}
	if here, err := At[M](n, far.at); err == nil {
		return here
	}
	return Ref[M]{remote[M]{n, far.at}}
}

// remote is the target of a reference to an actor of another node, or of a decoded reference that
// is not bound to a node yet. It is a value, so that references with the same address are equal.
type remote[M any] struct {
	node *Node // whose transport reaches the actor; nil if the reference is not bound
	at   Address
}

// seenBy binds a reference that is not bound yet to the node of the actor whose Context ctx is or
// comes from. Any other reference is returned as it is.
func (r Ref[M]) seenBy(ctx context.Context) Ref[M] {
	if far, ok := r.to.(remote[M]); ok && far.node == nil && ctx != nil {
		if c, ok := ctx.Value(senderKey{}).(*core); ok {
			return r.On(c.node)
		}
	}
	return r
}

// home returns the node on which the answers to questions to r arrive, nil if r is bound to none.
func (r Ref[M]) home() *Node {
	if c := r.core(); c != nil {
		return c.node
	}
	if many, ok := r.to.(interface{ seat() *Node }); ok {
		return many.seat()
	}
	return r.elsewhere()
}

func (f remote[M]) put(ctx context.Context, p Priority, e envelope[M]) error {
	if f.node == nil {
		if to := (Ref[M]{f}).seenBy(ctx); to.elsewhere() != nil || to.core() != nil {
			return to.put(ctx, p, e)
		}
	}
	if f.node != nil && f.at.Node == f.node.name {
		return unplaced(f.node, f.at, e, ErrStopped)
	}
	t, err := f.node.carrier(f.at)
	if err != nil {
		return unplaced(f.node, f.at, e, ErrUnreachable)
	}
	if ctx == nil {
		ctx = lifetime{f.node} // the send of a timer, whose goroutine may wait
	}
	out := Outbound{From: senderOf(ctx), To: f.at, Priority: p, Message: e.m}
	if e.x != nil && e.x.asked != nil {
		if q, ok := e.x.asked.(published); ok {
			out.Question = q.publish(e.x.ticket, f.at.Node)
		}
	}
	if f.node.tracer != nil {
		out.Trace = f.node.inject(ctx, Ref[M]{f})
	}
	if err = carry(ctx, t, out); err == nil {
		return nil
	}
	err = f.failed(e, err)
	if out.Question.Node == f.node.name {
		f.node.questions.forget(out.Question.ID)
	}
	return err
}

// carry sends a message. A panic, such as one in a method of the message that encodes it, is
// returned as an error.
func carry(ctx context.Context, t Transport, m Outbound) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return t.Send(ctx, m)
}

// failed makes a dead letter of a message that was not carried. It returns the transport's error as
// it is if that wraps a *mainstem.Error.
func (f remote[M]) failed(e envelope[M], cause error) error {
	err := unplaced(f.node, f.at, e, cause)
	var known *mainstem.Error
	if errors.As(cause, &known) {
		return cause
	}
	return err
}

// published is a question that other nodes can answer.
type published interface {
	// publish returns the address of the question, for a message to node to ("" if unknown).
	publish(ticket uint64, to string) Address
}

// senderKey is the key of the value of a Context that is the *core of its actor.
type senderKey struct{}

// senderOf returns the number of the actor that sends with ctx, 0 if it is none.
func senderOf(ctx context.Context) uint64 {
	if c, ok := ctx.Value(senderKey{}).(*core); ok {
		return c.id
	}
	return 0
}

func (f remote[M]) offer(ctx context.Context, e envelope[M]) (runnable, rest, error) {
	return nil, rest{do: func() error { return f.put(ctx, User, e) }}, nil
}

func (f remote[M]) address() Address { return f.at }
func (f remote[M]) local() *core     { return nil }
func (f remote[M]) asks() *askPools {
	if f.node == nil {
		return new(askPools)
	}
	return &f.node.asks
}

// order carries a request to end a remote actor. It is lost without a report if the node cannot be
// reached.
func (f remote[M]) order(o Order) {
	if t, err := f.node.carrier(f.at); err == nil {
		t.Order(f.at, o)
	}
}

// farQuestion is the answerer of a Reply that was asked on another node.
type farQuestion[R any] struct {
	node *Node   // whose transport carries the answer; nil if the reply is not bound
	at   Address // the address of the question
	by   uint64  // the actor that got the question, 0 if that is not known
}

func (q *farQuestion[R]) answer(_ uint64, v R, err error) error {
	t, lost := q.node.carrier(q.at)
	if lost != nil {
		return lost
	}
	return t.Answer(q.by, q.at, v, err)
}

// farAsked is the question of another node that a message asks. If the message becomes a dead
// letter, abandon carries ErrNoReply to that node. The fields are those of farQuestion.
type farAsked struct {
	node *Node
	at   Address
	by   uint64
}

func (q *farAsked) publish(uint64, string) Address { return q.at }

func (q *farAsked) abandon(_ uint64, by Address, cause error) {
	if t, err := q.node.carrier(q.at); err == nil {
		q.node.harmless(func() { _ = t.Answer(q.by, q.at, nil, fault("ask", by, &noReply{cause})) })
	}
}

// On binds a decoded reply to node n, so that it can be used there: if the question was asked on n,
// it is answered directly, else through the transport of n. Any other reply is returned as it is.
func (r Reply[R]) On(n *Node) Reply[R] { return r.on(n, 0) }

// on is On for a reply that the actor with the number by has got.
func (r Reply[R]) on(n *Node, by uint64) Reply[R] {
	far, ok := r.to.(*farQuestion[R])
	if !ok {
		return r
	}
	if far.at.Node == n.name {
		if o, ok := n.questions.find(far.at.ID); ok && far.at.Start == n.start {
			if q, ok := o.q.(*question[R]); ok {
				return Reply[R]{q, o.ticket}
			}
		}
	}
	return Reply[R]{to: &farQuestion[R]{n, far.at, by}}
}

// NewReply returns a reply that passes the answer to f, once at most, in the goroutine that
// answers. The error of f is that of [Reply.Send]. Such a reply cannot be sent to other nodes, and
// f is not called if the message with the reply is dropped.
func NewReply[R any](f func(v R, err error) error) Reply[R] {
	return Reply[R]{to: &funcReply[R]{f: f}}
}

// funcReply is the answerer of NewReply.
type funcReply[R any] struct {
	f    func(v R, err error) error
	done atomic.Bool // f has been called, or is being called
}

func (q *funcReply[R]) answer(_ uint64, v R, err error) error {
	if !q.done.CompareAndSwap(false, true) {
		return ErrReplied
	}
	return q.f(v, err)
}

// questions are the questions of a node that other nodes can answer, by number. Numbers are random,
// so that a node to which a question was not sent cannot answer it.
type questions struct {
	mu      sync.Mutex // guards open, sweepAt, and question.number
	open    map[uint64]openQuestion
	sweepAt int // the size of open at which publish sweeps next; 0: at the first call
}

// openQuestion is a question of any answer type.
type openQuestion struct {
	q interface {
		// answerAny is answer for a value of any type.
		answerAny(ticket uint64, v any, err error) error
		// waits reports whether the question with this ticket is still open.
		waits(ticket uint64) bool
	}
	ticket uint64 // the ticket of the question when it was published
	to     string // the node to which it was sent; "" if its Reply was encoded as a part of a message
}

// publish gives the question a number by which other nodes can answer it and returns its address.
// If it has a number for this ticket already, that is used again.
//
// Questions that nobody waits for any more stay in the table. publish removes them when the table has
// twice the size that it had after it was swept last.
func (q *question[R]) publish(ticket uint64, to string) Address {
	n := q.node
	a := Address{Node: n.name, Start: n.start}
	qs := &n.questions
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if o, ok := qs.open[q.number]; ok && o.q == any(q) && o.ticket == ticket {
		a.ID = q.number
		return a
	}
	if qs.open == nil {
		qs.open = make(map[uint64]openQuestion)
	}
	if len(qs.open) >= qs.sweepAt {
		qs.sweepLocked()
	}
	for a.ID == 0 {
		a.ID = rand.Uint64()
		if _, taken := qs.open[a.ID]; taken {
			a.ID = 0
		}
	}
	q.number = a.ID
	qs.open[a.ID] = openQuestion{q, ticket, to}
	return a
}

// sweepLocked removes the questions that nobody waits for any more. The caller holds qs.mu. Since the
// table must double before the next time, a publish pays for the look at few entries on average,
// however the size of the table goes up and down.
func (qs *questions) sweepLocked() {
	for id, o := range qs.open {
		if !o.q.waits(o.ticket) {
			delete(qs.open, id)
		}
	}
	qs.sweepAt = max(firstSweep, 2*len(qs.open))
}

func (qs *questions) find(id uint64) (openQuestion, bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	o, ok := qs.open[id]
	return o, ok
}

// forget removes a question and returns it, false if there is none with this number.
func (qs *questions) forget(id uint64) (openQuestion, bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	o, ok := qs.open[id]
	delete(qs.open, id)
	return o, ok
}

// sentTo removes the questions that were sent to a node and returns them.
func (qs *questions) sentTo(node string) (lost []openQuestion) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for id, o := range qs.open {
		if o.to == node {
			lost = append(lost, o)
			delete(qs.open, id)
		}
	}
	return lost
}

func (q *question[R]) waits(ticket uint64) bool { return q.state.Load() == 2*ticket }

func (q *question[R]) answerAny(ticket uint64, v any, err error) error {
	r, ok := as[R](v)
	if !ok && err == nil {
		return q.answer(ticket, r, invalidf("the answer is a %T: want %s", v, reflect.TypeFor[R]()))
	}
	return q.answer(ticket, r, err)
}

// Sender returns the number of the actor whose [Context] ctx is or comes from, 0 if there is none.
func (Inbound) Sender(ctx context.Context) uint64 { return senderOf(ctx) }

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

// Transport carries what a node has for actors of other nodes. Its counterpart on
// the other node calls the methods of [Inbound] there. The calls from one actor keep
// their order, whichever methods they are and however the receiver is addressed; from is the
// number of that actor, 0 if it is none. All methods may be called from many
// goroutines, most by actors in their turn: they may block while a node is being connected, Send and
// Answer also while it takes no more.
type Transport interface {
	// Send carries a message. An error says that it certainly does not arrive. If it
	// cannot be delivered later, that should be reported by [Inbound.Undelivered].
	Send(ctx context.Context, m Outbound) error
	// Answer carries the answer to a question; err is nil or what Fail was given.
	Answer(from uint64, to Address, v any, err error) error
	// Monitor lets f be called once, when the actor has ended, with the reason, or
	// with NodeDown when its node is lost. cancel takes it back.
	Monitor(from uint64, to Address, f func(reason error)) (cancel func())
	// Link, Unlink and Exit carry what the actor at from has for the other. When its
	// node is lost, those that are linked to its actors get an Exit with NodeDown.
	Link(from, to Address) error
	Unlink(from, to Address)
	Exit(from, to Address, reason error)
	// Order carries Stop, Drain or Kill.
	Order(to Address, o Order)
}

// ErrRestarted: the node of the actor has been restarted, so that the actor, which was
// addressed by a reference from before, is gone. It matches [ErrStopped]. Kind Closed.
var ErrRestarted = fmt.Errorf("%w: its node was restarted", ErrStopped)

// Outbound is a message for an actor of another node.
type Outbound struct {
	From     uint64 // the number of the actor that sends it, 0 if it is none
	To       Address
	Priority Priority
	Message  any
	// Question, if it is not zero, is where the answer to the message goes. It is on this
	// node, or, if the message is passed on, on the node where it was asked.
	Question Address
	// Trace is what rides on the message, as a [Propagator] has written it, or nil.
	Trace []byte
}

// Order is one of the ways in which a reference can end an actor.
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

// Connect gives the node its transport. It fails with Exists if it has one.
func (n *Node) Connect(t Transport) error {
	if !n.transport.CompareAndSwap(nil, &t) {
		return &mainstem.Error{Kind: mainstem.KindExists, Op: "connect node " + n.name, Hint: "a node has one transport"}
	}
	return nil
}

func (n *Node) carrier(to Address) (Transport, error) {
	if n != nil {
		if t := n.transport.Load(); t != nil {
			return *t, nil
		}
	}
	return nil, fault("reach", to, ErrUnreachable)
}

// At returns a reference to the actor of an address, wherever it is. For an actor
// of this node it fails as [Find] does; whether one elsewhere exists shows when it is used.
func At[M any](n *Node, a Address) (Ref[M], error) {
	switch {
	case a.IsZero():
		return Ref[M]{}, nil
	case a.Node == n.name:
		return Find[M](n, a)
	}
	return Ref[M]{remote[M]{n, a}}, nil
}

// On returns the reference as node n sees it: what was decoded can be used then.
// A reference to an actor of n that is gone stays what it is: sending to it fails.
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

// remote is an actor elsewhere, or nowhere yet: then node is nil. It is a value,
// so that references to the same actor are equal.
type remote[M any] struct {
	node *Node
	at   Address
}

// seenBy returns the reference as the actor that sends with ctx sees it.
func (r Ref[M]) seenBy(ctx context.Context) Ref[M] {
	if far, ok := r.to.(remote[M]); ok && far.node == nil && ctx != nil {
		if c, ok := ctx.Value(senderKey{}).(*core); ok {
			return r.On(c.node)
		}
	}
	return r
}

// home returns the node that questions to r can be answered at, nil if r is bound to none.
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
		ctx = lifetime{f.node} // a timer's, whose goroutine may wait
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

// carry sends a message. A panic in a method of the message is an error.
func carry(ctx context.Context, t Transport, m Outbound) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return t.Send(ctx, m)
}

// failed makes a dead letter of a message that was not carried. It returns
// the transport's error if that is one of the contract.
func (f remote[M]) failed(e envelope[M], cause error) error {
	err := unplaced(f.node, f.at, e, cause)
	var known *mainstem.Error
	if errors.As(cause, &known) {
		return cause
	}
	return err
}

// published is a question that can be answered from other nodes.
type published interface {
	publish(ticket uint64, to string) Address
}

// senderKey is the key of the actor whose Context a context comes from.
type senderKey struct{}

// senderOf returns the number of the actor that sends with ctx, 0 if it is none.
func senderOf(ctx context.Context) uint64 {
	if c, ok := ctx.Value(senderKey{}).(*core); ok {
		return c.id
	}
	return 0
}

func (f remote[M]) offer(ctx context.Context, e envelope[M]) (runnable, error) {
	return nil, f.put(ctx, User, e)
}

func (f remote[M]) address() Address { return f.at }
func (f remote[M]) local() *core     { return nil }
func (f remote[M]) asks() *askPools {
	if f.node == nil {
		return new(askPools)
	}
	return &f.node.asks
}

// order ends a remote actor.
func (f remote[M]) order(o Order) {
	if t, err := f.node.carrier(f.at); err == nil {
		t.Order(f.at, o)
	}
}

// farQuestion is a question of another node.
type farQuestion[R any] struct {
	node *Node
	at   Address
	by   uint64 // the actor that it came to, 0 if that is not known
}

func (q *farQuestion[R]) answer(_ uint64, v R, err error) error {
	t, lost := q.node.carrier(q.at)
	if lost != nil {
		return lost
	}
	return t.Answer(q.by, q.at, v, err)
}

// farAsked is the question of another node that a message asks: if the message is
// dropped, it is answered.
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

// On returns the reply as node n sees it: what was decoded can be used then.
func (r Reply[R]) On(n *Node) Reply[R] { return r.on(n, 0) }

// on is On for what has come to an actor.
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

// NewReply returns a reply that calls f with the answer: f is called once at most.
func NewReply[R any](f func(v R, err error) error) Reply[R] {
	return Reply[R]{to: &funcReply[R]{f: f}}
}

type funcReply[R any] struct {
	f    func(v R, err error) error
	done atomic.Bool
}

func (q *funcReply[R]) answer(_ uint64, v R, err error) error {
	if !q.done.CompareAndSwap(false, true) {
		return ErrReplied
	}
	return q.f(v, err)
}

// questions are those that have been sent to other nodes, by number. Numbers are
// random: a node that did not get one cannot answer.
type questions struct {
	mu   sync.Mutex // guards the fields below
	open map[uint64]openQuestion
}

// openQuestion is a question of any answer type, which of those it stood for, and
// where it was sent.
type openQuestion struct {
	q interface {
		answerAny(ticket uint64, v any, err error) error
		waits(ticket uint64) bool
	}
	ticket uint64
	to     string // the node, "" if it went along inside of a message
}

// publish gives the question a number that other nodes can answer to. Until it is
// answered it has one only, however often it is encoded.
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
	if len(qs.open)&(len(qs.open)-1) == 0 { // seldom, and more seldom the more there are
		for id, o := range qs.open {
			if !o.q.waits(o.ticket) {
				delete(qs.open, id)
			}
		}
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

func (qs *questions) find(id uint64) (openQuestion, bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	o, ok := qs.open[id]
	return o, ok
}

// forget removes a question and returns it.
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

// Sender returns the number of the actor whose [Context] ctx is, or comes from, 0 if there is none.
func (Inbound) Sender(ctx context.Context) uint64 { return senderOf(ctx) }

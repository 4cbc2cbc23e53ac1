package actor

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
)

// Transport carries what a node has for actors of other nodes. Its counterpart on
// the other node calls the methods of [Inbound] there. Calls for one address must
// keep their order. All methods may be called from many goroutines; none may block
// for long, except Send as its context allows.
type Transport interface {
	// Send carries a message. What cannot be delivered later should be reported by
	// [Node.Undelivered].
	Send(ctx context.Context, to Address, p Priority, m any) error
	// Answer carries the answer to a question; err is nil or what Fail was given.
	Answer(to Address, v any, err error) error
	// Monitor lets f be called once, when the actor has ended, with the reason, or
	// with NodeDown when its node is lost. cancel takes it back.
	Monitor(to Address, f func(reason error)) (cancel func())
	// Link, Unlink and Exit carry what the actor at from has for the other.
	Link(from, to Address) error
	Unlink(from, to Address)
	Exit(from, to Address, reason error)
	// Order carries Stop, Drain or Kill.
	Order(to Address, o Order)
}

// Order is what a reference can tell an actor.
type Order uint8

// The orders.
const (
	OrderStop Order = iota
	OrderDrain
	OrderKill
)

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
	if far, ok := r.to.(remote[M]); ok && far.node == nil {
		if on, ok := ctx.(interface{ Node() *Node }); ok {
			return r.On(on.Node())
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
	if to := (Ref[M]{f}).seenBy(ctx).to; to != target[M](f) {
		return to.put(ctx, p, e)
	}
	if f.node != nil && f.at.Node == f.node.name {
		return fault("send to", f.at, ErrStopped)
	}
	t, err := f.node.carrier(f.at)
	if err != nil {
		return err
	}
	if ctx == nil {
		ctx = lifetime{f.node} // a timer's, whose goroutine may wait
	}
	if err := guard(func() error { err = t.Send(ctx, f.at, p, e.m); return nil }); err != nil {
		return unplaced(f.node, f.at, e, err)
	}
	return err
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

// order tells a remote actor to end.
func (f remote[M]) order(o Order) {
	if t, err := f.node.carrier(f.at); err == nil {
		t.Order(f.at, o)
	}
}

// farQuestion is a question of another node.
type farQuestion[R any] struct {
	node *Node
	at   Address
}

func (q *farQuestion[R]) answer(_ uint64, v R, err error) error {
	t, lost := q.node.carrier(q.at)
	if lost != nil {
		return lost
	}
	return t.Answer(q.at, v, err)
}

// On returns the reply as node n sees it: what was decoded can be used then.
func (r Reply[R]) On(n *Node) Reply[R] {
	far, ok := r.to.(*farQuestion[R])
	if !ok {
		return r
	}
	if far.at.Node == n.name {
		if o, ok := n.questions.find(far.at.ID); ok {
			if q, ok := o.q.(*question[R]); ok {
				return Reply[R]{q, o.ticket}
			}
		}
	}
	return Reply[R]{to: &farQuestion[R]{n, far.at}}
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

// questions are those that have been sent to other nodes, by number.
type questions struct {
	mu   sync.Mutex // guards the fields below
	last uint64
	open map[uint64]openQuestion
}

// openQuestion is a question of any answer type, and which of those it stood for.
type openQuestion struct {
	q interface {
		answerAny(ticket uint64, v any, err error) error
		waits(ticket uint64) bool
	}
	ticket uint64
}

// publish gives the question a number that other nodes can answer to.
func (q *question[R]) publish(ticket uint64) Address {
	n := q.node
	a := Address{Node: n.name, Start: n.start}
	qs := &n.questions
	qs.mu.Lock()
	defer qs.mu.Unlock()
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
	qs.last++
	a.ID = qs.last
	qs.open[a.ID] = openQuestion{q, ticket}
	return a
}

func (qs *questions) find(id uint64) (openQuestion, bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	o, ok := qs.open[id]
	return o, ok
}

func (q *question[R]) waits(ticket uint64) bool { return q.state.Load() == 2*ticket }

func (q *question[R]) answerAny(ticket uint64, v any, err error) error {
	r, ok := v.(R)
	if !ok && err == nil {
		return q.answer(ticket, r, invalidf("the answer is a %T: want %T", v, r))
	}
	return q.answer(ticket, r, err)
}

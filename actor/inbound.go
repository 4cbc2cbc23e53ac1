package actor

import (
	"context"
	"time"
)

// Inbound is what a transport calls on a node for the nodes it connects to.
type Inbound struct{ node *Node }

// Inbound returns the node's side for a [Transport].
func (n *Node) Inbound() Inbound { return Inbound{n} }

// Deliver puts a message into the mailbox of an actor of this node, after it has
// bound the references and replies in it to the node (see [Ref.On]): m must be the
// caller's own, as decoded. It fails with
// Closed if the actor is gone, Invalid if it takes other messages.
func (i Inbound) Deliver(ctx context.Context, to Address, p Priority, m any) error {
	c, err := i.find(to)
	if err != nil {
		i.node.deadLetter(func() DeadLetter { return DeadLetter{To: to, Message: m, Reason: ErrStopped, Time: time.Now()} })
		return err
	}
	return c.ops.deliver(ctx, p, i.node.bind(m))
}

// Answer answers a question that this node sent elsewhere. It fails with
// [ErrReplied] if nobody waits for it any more.
func (i Inbound) Answer(to Address, v any, err error) error {
	if to.Start != i.node.start {
		return ErrReplied
	}
	qs := &i.node.questions
	o, ok := qs.find(to.ID)
	if !ok {
		return ErrReplied
	}
	qs.mu.Lock()
	delete(qs.open, to.ID)
	qs.mu.Unlock()
	return o.q.answerAny(o.ticket, i.node.bind(v), err)
}

// Monitor calls f once, when an actor of this node has ended, with the reason: at
// once, with [Missing], if it is gone.
func (i Inbound) Monitor(to Address, f func(reason error)) (cancel func()) {
	w := &watch{notify: f}
	c, _ := i.find(to)
	w.begin(c)
	return w.forget
}

// Link lets an actor of another node be told by [Transport.Exit] when an actor of
// this node has ended: at once if it is gone.
func (i Inbound) Link(from, to Address) {
	c, err := i.find(to)
	if err == nil && c.linkFar(from) {
		return
	}
	if t, err := i.node.carrier(from); err == nil {
		t.Exit(to, from, Missing)
	}
}

// Unlink takes Link back.
func (i Inbound) Unlink(from, to Address) {
	if c, err := i.find(to); err == nil {
		c.unlinkFar(from)
	}
}

// Exit tells an actor of this node that one it is linked to has ended.
func (i Inbound) Exit(from, to Address, reason error) {
	if c, err := i.find(to); err == nil {
		c.unlinkFar(from)
		c.ops.signal(signal{kind: exitSignal, far: from, reason: reason})
	}
}

// Order tells an actor of this node to end.
func (i Inbound) Order(to Address, o Order) {
	if c, err := i.find(to); err == nil {
		c.order(o)
	}
}

// Undelivered makes a dead letter of a message that the transport had taken.
func (n *Node) Undelivered(to Address, m any, reason error) {
	n.deadLetter(func() DeadLetter { return DeadLetter{To: to, Message: m, Reason: reason, Time: time.Now()} })
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
	if c.life >= ending {
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
	if c.rare != nil {
		delete(c.rare.far, far)
	}
}

// exact returns the address of c by number.
func (c *core) exact() Address { return Address{Node: c.node.name, Start: c.node.start, ID: c.id} }

// deliver puts a message of any type into the mailbox.
func (p *process[M]) deliver(ctx context.Context, prio Priority, m any) error {
	typed, ok := m.(M)
	if !ok {
		return invalidf("%s does not take a %T", p.address(), m)
	}
	return Ref[M]{p}.put(ctx, prio, envelope[M]{m: typed})
}

package actor

import (
	"context"
	"sync"
	"time"
)

// Group is a set of actors that take the same messages: any holder of the group can
// reach all of them without knowing who they are. It is safe for concurrent use.
//
// Actors join and leave; one that has ended for good is no member any more. A
// member that a supervisor restarts stays one. A message for one member of many is
// a [Router]'s business, values with a memory are an [Event]'s.
type Group[M any] struct {
	name string
	node *Node

	mu      sync.Mutex // guards members
	members receivers[M]
}

// GroupOf returns the group of a name on a node, and makes it if there is none:
// with the same name, actors find each other. The empty name makes a new group, known
// only to those who are given it. It fails with Invalid if the group of that name
// takes other messages. A named group lasts as long as its node, even while it is empty.
func GroupOf[M any](n *Node, name string) (*Group[M], error) {
	g := &Group[M]{name: name, node: n, members: newReceivers[M]()}
	if name == "" {
		return g, nil
	}
	if err := validName("a group", name); err != nil {
		return nil, err
	}
	v, _ := n.groups.LoadOrStore(name, g)
	g, ok := v.(*Group[M])
	if !ok {
		return nil, invalidf("the group %s/%s is a %T", n.name, name, v)
	}
	return g, nil
}

// Name returns the group's name, "" if it has none.
func (g *Group[M]) Name() string { return g.name }

// Join makes an actor of the group's node a member. An actor whose messages are
// not M joins through [Adapt]. Joining twice is joining once, with the later reference.
// It fails with Closed if the actor has stopped, Invalid if r is no actor of that node: if it
// is of another, or a reference to a [Router] or a key of a [Keyed].
func (g *Group[M]) Join(r Ref[M]) error {
	c := r.core()
	switch {
	case c == nil && !r.IsZero(), c != nil && c.node != g.node:
		return invalidf("%s cannot join a group of node %s: it is no actor of that node", r, g.node.name)
	case c == nil || c.gone():
		return fault("join", r.Address(), ErrStopped)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.members.replace(c, r) {
		g.members.add(c, r)
	}
	return nil
}

// Leave ends the membership of an actor, and reports whether it was a member.
func (g *Group[M]) Leave(r AnyRef) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members.drop(r.core())
}

// Has reports whether an actor is a member.
func (g *Group[M]) Has(r AnyRef) bool {
	c := r.core()
	g.mu.Lock()
	_, ok := g.members.index[c]
	g.mu.Unlock()
	return ok && !c.gone()
}

// Members returns the members that have not stopped, in no particular order. The
// slice is the caller's.
func (g *Group[M]) Members() []Ref[M] {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members.sweep()
	return append([]Ref[M](nil), g.members.refs...)
}

// Len returns how many members there are. Some may have stopped since the last
// Broadcast or call of Members.
func (g *Group[M]) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.members.refs)
}

// Broadcast puts m into the mailboxes of all that are members now and returns how
// many there were; members that have stopped are forgotten. Messages of one sender
// to one member keep their order. ctx bounds the waiting for mailboxes with the
// policy [Block]; a full mailbox is no error here: its policy decides about the message. It
// fails with Canceled if ctx had ended before.
func (g *Group[M]) Broadcast(ctx context.Context, m M) (int, error) {
	if ctx.Err() != nil {
		return 0, fault("broadcast to", Address{Node: g.node.name, Name: g.name}, endOf(ctx, time.Time{}, ""))
	}
	g.mu.Lock()
	to := g.members.lend()
	g.mu.Unlock()

	gone := spread(ctx, to, m)
	if len(gone) > 0 {
		g.mu.Lock()
		g.members.dropStopped(gone)
		g.mu.Unlock()
	}
	return len(to) - len(gone), nil
}

// DropGroup forgets the name of a group, so that [GroupOf] makes a new one. Those
// who have the old one can still use it. It reports whether there was a group of that name.
func DropGroup(n *Node, name string) bool {
	_, had := n.groups.LoadAndDelete(name)
	return had
}

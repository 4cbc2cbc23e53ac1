package actor

import (
	"context"
	"sync"
	"time"
)

// Group is a set of actors that take the same messages, like a group of pg: any holder of the group
// can send to all members. It is safe for concurrent use.
//
// Actors join and leave. A member that a supervisor restarts stays a member; one that has ended for
// good is removed. Unlike an [Event] a group replays nothing to new members and lets broadcasts run
// at the same time; a [Router] sends each message to one actor of several.
type Group[M any] struct {
	name string
	node *Node

	mu      sync.Mutex // guards members
	members receivers[M]
}

// GroupOf returns the group of a name on a node, and makes it if there is none. The empty name
// makes a new group without a name, which only its holders know. GroupOf fails with Invalid if the
// group of that name takes other messages, or name cannot be a name. A group with a name lasts as
// long as its node, even while it is empty, unless [DropGroup] removes it.
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

// Join makes an actor of the group's node a member. An actor whose messages are not M joins through
// [Adapt]. Joining twice is joining once, with the later reference; in pg it counts twice. Join
// fails with Closed if the actor has ended, Invalid if r refers to no actor of that node: to one of
// another node, a [Router], or a key of a [Keyed].
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

// Has reports whether an actor is a member and has not ended.
func (g *Group[M]) Has(r AnyRef) bool {
	c := r.core()
	g.mu.Lock()
	_, ok := g.members.index[c]
	g.mu.Unlock()
	return ok && !c.gone()
}

// Members returns the members that have not ended, in no particular order. The slice is the
// caller's.
func (g *Group[M]) Members() []Ref[M] {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members.sweep()
	return append([]Ref[M](nil), g.members.refs...)
}

// Len returns how many members there are. Some may have ended since the last call of Broadcast or
// Members.
func (g *Group[M]) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.members.refs)
}

// Broadcast puts m into the mailboxes of all present members and returns how many those were. It
// returns when m is in all mailboxes. Members that have ended are removed. Messages of one sender
// to one member keep their order; those of several senders may reach two members in different
// orders.
//
// ctx bounds the waiting for room in mailboxes with the policy [Block]. A full mailbox is no error:
// its policy decides about m, and the member is counted. Broadcast fails with Canceled if ctx had
// ended before the call.
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

// DropGroup removes a group from the names of a node, so that [GroupOf] makes a new one. Holders of
// the old group can still use it. DropGroup reports whether there was a group of that name.
func DropGroup(n *Node, name string) bool {
	_, had := n.groups.LoadAndDelete(name)
	return had
}

package actor

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"time"
)

// Info describes an actor at one moment, like process_info.
type Info struct {
	Address     Address
	ID          uint64   // the actor's number on its node
	Names       []string // in the order of registration, aliases included; the caller's
	Parent      Address  // zero for actors that were spawned from the node
	Messages    string   // the message type
	Behaviour   string   // the type of the actor's value; "" if it is dead
	State       string   // idle, running (also starting), ending, suspended (until a restart), dead
	Incarnation int      // see Context.Incarnation; while it is suspended, that of the next
	Waiting     int      // messages and calls in the mailbox, without those stashed or unstashed
	Handled     uint64   // messages and calls that have left the mailbox, the present one included
	Links       int      // to actors of this node and of others
	Monitors    int      // monitors that others have set on it
	Children    int
	Reason      error // why its last incarnation ended, if it is not alive; else nil
}

// Inspect describes the actor of an address: by number if the address has one, else by name. It
// does not compare Node and Start of the address. It fails with Closed if there is no such actor.
func (n *Node) Inspect(a Address) (Info, error) {
	c := n.find(a)
	if c == nil {
		return Info{}, fault("inspect", a, ErrStopped)
	}
	return c.ops.inspect(), nil
}

// TypeOf returns the type of an actor's value, or of the value that [Context.Become] has put in its
// place. It is good as a label of metrics: there are only as many values as types in the program.
// It is "" if the actor has ended for good, or is on another node.
func TypeOf(a AnyRef) string {
	if c := a.core(); c != nil {
		return c.ops.kind()
	}
	return ""
}

func (p *process[M]) kind() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.act == nil {
		return ""
	}
	return reflect.TypeOf(p.act).String()
}

// find returns the actor of an address on this node, nil if there is none. It does not compare Node
// and Start of the address.
func (n *Node) find(a Address) *core {
	if a.ID != 0 {
		return n.table.find(a.ID)
	}
	if v, ok := n.names.Load(a.Name); ok {
		return v.(*core)
	}
	return nil
}

// InspectState returns the map of [Inspector.Inspect] of an actor, nil if the actor is no
// Inspector, like sys:get_state. The call has priority [Urgent]; InspectState waits for it as long
// as ctx allows. It fails with Closed if the actor has ended or the incarnation ends first,
// Canceled if ctx ends first. An actor must not call it for itself: it would wait until ctx ends.
func (n *Node) InspectState(ctx context.Context, a Address) (map[string]string, error) {
	c := n.find(a)
	if c == nil {
		return nil, fault("inspect", a, ErrStopped)
	}
	// The channel is taken first: the actor may end as soon as the task is in its mailbox.
	ended, began := c.ending(), time.Now()
	shown := make(chan map[string]string, 1)
	if ended == nil || !c.ops.post(Urgent, &extra{task: func() error { shown <- c.ops.show(); return nil }}) {
		return nil, fault("inspect", a, ErrStopped)
	}
	select {
	case m := <-shown:
		return m, nil
	case <-ended:
		select {
		case m := <-shown: // the actor has ended after it answered
			return m, nil
		default:
			return nil, fault("inspect", a, ErrStopped)
		}
	case <-ctx.Done():
		return nil, fault("inspect", a, endOf(ctx, began, "the actor to show its state"))
	}
}

// Walk yields all actors with their depth in the tree, from 0: each parent before its children, and
// siblings in the order in which they were started. It is no snapshot: an actor that starts or ends
// meanwhile may be missing. It holds no lock while the loop body runs.
func (n *Node) Walk() iter.Seq2[int, Info] {
	return func(yield func(int, Info) bool) { walk(&n.root, 0, yield) }
}

func walk(c *core, depth int, yield func(int, Info) bool) bool {
	children := c.children()
	for i := len(children) - 1; i >= 0; i-- {
		if !yield(depth, children[i].ops.inspect()) || !walk(children[i], depth+1, yield) {
			return false
		}
	}
	return true
}

// show calls Inspect of an Inspector. It is called in the actor's turn.
func (p *process[M]) show() map[string]string {
	if i, ok := p.act.(Inspector); ok {
		return i.Inspect()
	}
	return nil
}

func (p *process[M]) inspect() Info {
	a := p.address()
	var parent Address
	if p.parent != &p.node.root {
		parent = p.parent.address()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := Info{
		Address: a, Parent: parent, ID: p.id, Incarnation: int(p.inc), Handled: p.read,
		Messages: fmt.Sprintf("%T", (*M)(nil))[1:], State: p.state.label(),
	}
	if p.act != nil {
		i.Behaviour = fmt.Sprintf("%T", p.act)
	}
	i.Waiting = p.queue.n
	if c := p.cur; c != nil {
		at := int(p.at.Load())
		i.Handled += uint64(at)
		i.Waiting += len(c.slots) - at
	}
	if b := p.bounded; b != nil {
		i.Waiting += b.n
	}
	if x := p.express; x != nil {
		i.Waiting += len(x.urgent) + len(x.system)
	}
	for k := p.lastChild; k != nil; k = k.older {
		i.Children++
	}
	if r := p.coreExtras; r != nil {
		i.Names = append(i.Names, r.names...)
		i.Links, i.Monitors, i.Reason = len(r.links)+len(r.far), len(r.watchers), r.reason
	}
	return i
}

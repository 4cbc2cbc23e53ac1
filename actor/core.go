package actor

import (
	"context"
	"reflect"
	"sync"
	"time"
)

// core is the part of an actor that does not depend on its message type.
type core struct {
	node       *Node
	ops        ops    // the process around this core
	id         uint64 // its number on the node: see table
	parent     *core
	older      *core // the sibling started before it; parent.mu guards both
	newer      *core
	coreExtras *coreExtras // nil for most actors; mu guards the pointer and the fields behind it

	mu        sync.Mutex // guards the fields below and the mailbox
	lastChild *core      // the child started last
	inc       uint32     // the incarnation, from 1
	state     state
}

// ops is what a core asks of the process around it.
type ops interface {
	// signal puts s before all messages.
	signal(s signal)
	// post puts a task into the mailbox at a priority, whatever its limit, and reports
	// whether the actor is there to run it.
	post(p Priority, x *extra) bool
	// restart begins a new incarnation of a suspended actor with a new value.
	restart() error
	// finalize ends a suspended actor for good.
	finalize(reason error)
	inspect() Info
	kind() string
	takes() reflect.Type // the type of its messages
	show() map[string]string
	grace() time.Duration
	// deliver is put for a message whose type is to be found out.
	deliver(ctx context.Context, d Delivery) error
}

// coreExtras holds what few actors need.
type coreExtras struct {
	names    []string
	done     chan struct{}        // closed when the actor is asked to end: Context.Done
	closed   bool                 // done is closed, or would be
	ended    chan struct{}        // closed when the incarnation has ended
	reason   error                // why it ended last
	links    map[*core]struct{}   // both ways
	far      map[Address]struct{} // links to actors of other nodes
	watchers map[*watch]struct{}  // who monitors this actor
	watching map[*watch]struct{}  // the actors that it monitors
	trap     func(Exit) error     // set: exits of links become calls
	idle     *idler               // with Options.Idle
}

// more returns the extras of c, which it makes if there are none. The caller holds c.mu.
func (c *core) more() *coreExtras {
	if c.coreExtras == nil {
		c.coreExtras = new(coreExtras)
	}
	return c.coreExtras
}

// signalKind says what a signal asks for.
type signalKind uint8

const (
	stopSignal  signalKind = iota // end for reason, with the Stop method
	killSignal                    // end at once
	exitSignal                    // a linked actor has ended
	childSignal                   // a kept child's incarnation has ended
)

// signal is a request or report that is handled before all messages.
type signal struct {
	kind   signalKind
	from   *core
	far    Address // with exitSignal: who ended, if it is of another node
	inc    uint32  // with childSignal: the incarnation that ended
	reason error
}

// ending returns the channel that is closed when the present incarnation of c
// has ended, nil if it has already.
func (c *core) ending() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.quiet() {
		return nil
	}
	r := c.more()
	if r.ended == nil {
		r.ended = make(chan struct{})
	}
	return r.ended
}

// adopt makes kid the newest child of c. It fails if c is not alive.
func (c *core) adopt(kid *core) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.state.alive() {
		return false
	}
	kid.parent, kid.older = c, c.lastChild
	if c.lastChild != nil {
		c.lastChild.newer = kid
	}
	c.lastChild = kid
	return true
}

// disown removes kid from the children of c.
func (c *core) disown(kid *core) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kid.newer != nil {
		kid.newer.older = kid.older
	} else if c.lastChild == kid {
		c.lastChild = kid.older
	}
	if kid.older != nil {
		kid.older.newer = kid.newer
	}
	kid.older, kid.newer = nil, nil
}

// children returns the children of c, the newest first.
func (c *core) children() []*core {
	c.mu.Lock()
	defer c.mu.Unlock()
	var children []*core
	for k := c.lastChild; k != nil; k = k.older {
		children = append(children, k)
	}
	return children
}

// address returns the address of c by name if it has one, else by number.
func (c *core) address() Address {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := Address{Node: c.node.name, Start: c.node.start, ID: c.id}
	if c.coreExtras != nil && len(c.coreExtras.names) > 0 {
		a.Name = c.coreExtras.names[0]
	}
	return a
}

package actor

import (
	"context"
	"reflect"
	"sync"
	"time"
)

// core is the part of an actor that does not depend on its message type: its identity, its place
// in the tree of parents and children, and its state. process embeds it.
//
// Lock order: no core is locked while another core is locked, and no callback of a user runs
// under mu.
//
// Invariants, under parent.mu: the children of a core are the list that begins at lastChild and
// goes on by older; a.older == b if and only if b.newer == a.
type core struct {
	node       *Node
	ops        ops    // the process around this core; nil for the root of a node
	id         uint64 // its number on the node, set once: see table
	parent     *core  // set once, by adopt; nil for the root of a node
	older      *core  // the sibling started before it; parent.mu guards older and newer
	newer      *core
	coreExtras *coreExtras // nil for most actors; mu guards the pointer and the fields behind it

	mu        sync.Mutex // guards the fields below and the mailbox
	lastChild *core      // the child started last, nil if there is none
	inc       uint32     // the incarnation, from 1; it increases when an incarnation ends (see part)
	state     state
}

// ops are the methods of the process around a core that code without the message type calls.
type ops interface {
	// signal queues s: signals are handled in their order, before all messages. It does
	// nothing if the actor is not alive.
	signal(s signal)
	// post puts a task into the mailbox at a priority, even if the mailbox is full, and
	// reports whether it did. It does not if the actor is not alive (with one exception: see
	// process.post), or if the task belongs to another incarnation than the present one.
	post(p Priority, x *extra) bool
	// restart begins a new incarnation of a suspended actor with a new value. The calling
	// goroutine runs its Start method.
	restart() error
	// finalize ends a suspended actor for good. It does nothing in any other phase.
	finalize(reason error)
	inspect() Info
	kind() string            // see TypeOf
	takes() reflect.Type     // the type of its messages
	show() map[string]string // see Inspector; called in the actor's turn
	grace() time.Duration    // Options.Grace
	// deliver decodes a message from another node and puts it into the mailbox.
	deliver(ctx context.Context, d Delivery) error
}

// coreExtras holds the state that few actors need, so that an idle actor stays small. All but
// names and reason belong to one incarnation: part takes them from the actor when it ends.
type coreExtras struct {
	names    []string             // in the order of registration; the first is the one in its address
	done     chan struct{}        // closed when the actor is asked to end (Context.Done); or nil
	closed   bool                 // the actor is asked to end: done is closed, unless it is nil
	ended    chan struct{}        // closed when the incarnation has ended (see ending); or nil
	reason   error                // why the last incarnation ended; nil after a restart
	links    map[*core]struct{}   // linked actors of this node. Each has this actor in its links
	far      map[Address]struct{} // linked actors of other nodes
	watchers map[*watch]struct{}  // monitors of this actor
	watching map[*watch]struct{}  // monitors that this actor has set
	trap     func(Exit) error     // not nil: the actor traps exits, which become calls of trap
	idle     *idler               // nil without Options.Idle, and until the actor is idle first
}

// more returns the extras of c and allocates them if there are none. The caller holds c.mu.
func (c *core) more() *coreExtras {
	if c.coreExtras == nil {
		c.coreExtras = new(coreExtras)
	}
	return c.coreExtras
}

// signalKind is the kind of a signal.
type signalKind uint8

const (
	stopSignal  signalKind = iota // end with reason
	killSignal                    // end with Killed, without the Stop method
	exitSignal                    // a linked actor has ended with reason
	childSignal                   // to a supervisor: an incarnation of a child has ended with reason
)

// signal is a request to end or a report of an end. It is no message: signals are handled before
// all messages, and are dropped without a dead letter when the actor ends.
type signal struct {
	kind   signalKind
	from   *core   // with exitSignal: who ended, nil if that is at far; with childSignal: the child
	far    Address // with exitSignal: who ended, if it is of another node
	inc    uint32  // with childSignal: the incarnation that ended
	reason error   // nil with killSignal
}

// ending returns a channel that is closed when the present incarnation of c has ended and, if it
// was the last, c is finished. It returns nil if that has happened already.
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

// finished reports whether c has ended for good, and its links and monitors have been notified.
func (c *core) finished() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.phase == phaseFinished
}

// adopt makes kid the newest child of c. It returns false if c is not alive.
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

// address returns the address of c, with its number and, if it has a name, the first of them.
func (c *core) address() Address {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := Address{Node: c.node.name, Start: c.node.start, ID: c.id}
	if c.coreExtras != nil && len(c.coreExtras.names) > 0 {
		a.Name = c.coreExtras.names[0]
	}
	return a
}

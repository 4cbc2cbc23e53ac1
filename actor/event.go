package actor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Event is a topic with values of type E to which actors subscribe. Any holder of the Event can
// publish; others find it by its name. Unlike gen_event it has no process and no handlers: Publish
// puts a value into the mailboxes of the subscribers. An Event is safe for concurrent use.
//
// An event that an actor made ends with the incarnation of the actor that made it. One that was
// made from a node lasts as long as the node.
//
// A subscriber gets the values as ordinary messages: all that were published since it subscribed,
// in the order in which they were published, except those that the [Overflow] policy of its mailbox
// drops. Subscribers that have ended are removed.
type Event[E any] struct {
	name  string            // "" if it has none
	node  *Node             // where it was made
	owner *core             // the actor that made it, or the root of the node
	keep  int               // EventOptions.Replay
	watch func(active bool) // calls EventOptions.Active, or nil

	// publishing has capacity 1. It is full while a value goes to the mailboxes, so that values
	// reach all of them in one order.
	publishing chan struct{}

	// joining is held while a new subscriber gets the last values, which may call functions of the
	// program, and while a publisher adds a value to last and borrows subs. So a subscriber gets each
	// value in one of the two ways. Lock order: publishing, joining, mu.
	joining sync.Mutex
	last    []E // the last values, keep at most, the oldest first; joining guards it

	mu    sync.Mutex   // guards the fields below; never held while a call waits or calls the program
	subs  receivers[E] // lent to one publisher at most: the holder of publishing
	ended bool

	published atomic.Uint64 // values published so far
}

// EventOptions configure an [Event]; nil means the defaults.
type EventOptions struct {
	// Replay is how many of the last values a new subscriber gets first. Default 0.
	Replay int
	// Active is called with true when the first subscriber comes and with false when the last
	// has gone. Default: none.
	//
	// Of an event that an actor made, it is called in the actor's turn, at priority [System]. Of
	// an event of a node, it is called by the goroutine that subscribes, unsubscribes or
	// publishes, so that several calls may run at once. Subscribers that have ended are noticed
	// when a value is published, or when there are many and another one subscribes.
	Active func(active bool)
}

// NewEvent makes an event. An event with a name can be found by [LookupEvent] on its node; one
// without a name is known only to its holders. NewEvent fails with Exists if another event of the
// node has the name, Invalid if name cannot be a name.
func NewEvent[E any](s Spawner, name string, o *EventOptions) (*Event[E], error) {
	if o == nil {
		o = &EventOptions{}
	}
	if o.Replay < 0 {
		return nil, invalidf("EventOptions.Replay is %d: want 0 or more", o.Replay)
	}
	n, owner := s.spawner()
	e := &Event[E]{name: name, node: n, owner: owner, keep: o.Replay, subs: newReceivers[E](), publishing: make(chan struct{}, 1)}
	if name != "" {
		if err := validName("an event", name); err != nil {
			return nil, err
		}
		if _, taken := n.events.LoadOrStore(name, e); taken {
			return nil, &mainstem.Error{Kind: mainstem.KindExists, Op: "new event " + n.name + "/" + name, Hint: "names of events are unique on a node"}
		}
	}
	if o.Active != nil {
		e.watch = func(active bool) { n.harmless(func() { o.Active(active) }) }
	}
	if owner != &n.root {
		w := &watch{notify: func(error) { e.end() }}
		if e.watch != nil {
			inc := owner.incarnation()
			e.watch = func(active bool) {
				owner.ops.post(System, &extra{inc: inc, task: func() error { o.Active(active); return nil }})
			}
		}
		w.begin(owner)
	}
	return e, nil
}

// LookupEvent returns the event that has a name on a node. It fails with NotFound if there is none,
// Invalid if its values are of another type.
func LookupEvent[E any](n *Node, name string) (*Event[E], error) {
	v, ok := n.events.Load(name)
	if !ok {
		return nil, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "look up event " + n.name + "/" + name}
	}
	e, ok := v.(*Event[E])
	if !ok {
		return nil, invalidf("the event %s/%s is a %T", n.name, name, v)
	}
	return e, nil
}

// Owner returns the address of the actor that made the event, zero if it was made from the node.
func (e *Event[E]) Owner() Address {
	if e.owner == &e.node.root {
		return Address{}
	}
	return e.owner.address()
}

// Len returns how many actors are subscribed. Some may have ended since the last Publish.
func (e *Event[E]) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.subs.refs)
}

// Subscribe subscribes the actor of r: it gets the last values that the event keeps (see
// [EventOptions.Replay]), then all that are published from now on. An actor whose messages are not
// E subscribes through [Adapt]. An actor is subscribed once: a second Subscribe replaces the
// reference and replays nothing. A subscription outlives restarts of the actor.
//
// It fails with Closed if the event or the actor has ended, or r refers to no actor of this
// process. Subscribe waits neither for a mailbox nor for a publisher that waits for one. If the last
// values do not fit into the mailbox, it fails with Unavailable, and the actor has got some of them.
//
// While it sends the last values, it may call the function of an [Adapt], the [Observer] and
// listeners for dead letters. These must neither publish to the event nor subscribe to it.
func (e *Event[E]) Subscribe(r Ref[E]) error {
	c := r.core()
	if c == nil || c.gone() {
		return fault("subscribe", r.Address(), ErrStopped)
	}
	notices, err := e.join(r, c)
	e.notice(notices...)
	return err
}

// join subscribes r and returns the arguments for calls of Active. If a value is being published,
// it is one of last, unless none are kept, and r gets it by that way only: the publisher has the
// references from before.
func (e *Event[E]) join(r Ref[E], c *core) (notices []bool, err error) {
	e.joining.Lock()
	defer e.joining.Unlock()
	if known, err := e.replace(r, c); known || err != nil {
		return nil, err
	}
	for _, v := range e.last {
		if err := r.Send(noWait, v); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return nil, e.closed("subscribe to")
	}
	if e.subs.add(c, r) {
		notices = append(notices, false)
	}
	if len(e.subs.refs) == 1 {
		notices = append(notices, true)
	}
	return notices, nil
}

// replace replaces the reference to the actor c by r, and reports whether there was one.
func (e *Event[E]) replace(r Ref[E], c *core) (known bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return false, e.closed("subscribe to")
	}
	return e.subs.replace(c, r), nil
}

// closed returns the error of an operation on an event that has ended.
func (e *Event[E]) closed(op string) error {
	return fault(op, Address{Node: e.node.name, Name: e.name}, ErrStopped)
}

// Unsubscribe ends the subscription of an actor. Values that are in its mailbox stay there, and a
// value that is being published may still come.
func (e *Event[E]) Unsubscribe(r AnyRef) {
	e.mu.Lock()
	emptied := e.subs.drop(r.core()) && len(e.subs.refs) == 0
	e.mu.Unlock()
	if emptied {
		e.notice(false)
	}
}

// giveBack ends the loan of the references to a publisher, and removes those in gone, whose actors
// have ended, unless they were replaced meanwhile.
func (e *Event[E]) giveBack(gone []Ref[E]) {
	e.mu.Lock()
	e.subs.lent = false
	emptied := e.subs.dropStopped(gone) && len(e.subs.refs) == 0
	e.mu.Unlock()
	if emptied {
		e.notice(false)
	}
}

// notice calls Active once for each argument. Active may use the event, so the caller must not hold
// e.mu.
func (e *Event[E]) notice(active ...bool) {
	if e.watch != nil {
		for _, on := range active {
			e.watch(on)
		}
	}
}

// Publish puts v into the mailboxes of all subscribers and returns how many those were. It returns
// when v is in all mailboxes; it does not wait until v is handled. One call publishes at a time,
// others wait for it.
//
// ctx, which may be nil, bounds the waiting for other calls and for room in mailboxes with the
// policy [Block]. Publish fails with Canceled if ctx ends while it waits for other calls, Closed if
// the event has ended. A full mailbox is no error: its policy decides about v, and the subscriber
// is counted.
func (e *Event[E]) Publish(ctx context.Context, v E) (int, error) {
	var cancelled <-chan struct{}
	if ctx != nil {
		cancelled = ctx.Done()
	}
	select {
	case e.publishing <- struct{}{}:
		defer func() { <-e.publishing }()
	case <-cancelled:
		return 0, fault("publish", Address{Node: e.node.name, Name: e.name}, endOf(ctx, time.Time{}, "other calls of Publish"))
	}
	subs, err := e.borrow(v)
	if err != nil {
		return 0, err
	}
	e.published.Add(1)
	gone := spread(ctx, subs, v)
	e.giveBack(gone)
	return len(subs) - len(gone), nil
}

// borrow makes v one of the last values and lends the references to the caller, who publishes v to
// them.
func (e *Event[E]) borrow(v E) ([]Ref[E], error) {
	e.joining.Lock()
	defer e.joining.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return nil, e.closed("publish")
	}
	if e.keep > 0 {
		if len(e.last) == e.keep {
			e.last = append(e.last[:0:0], e.last[1:]...)
		}
		e.last = append(e.last, v)
	}
	return e.subs.lend(), nil
}

// end ends the event: Publish and Subscribe fail from then on, and its name is free.
func (e *Event[E]) end() {
	e.mu.Lock()
	e.ended = true
	e.mu.Unlock()
	if e.name != "" {
		e.node.events.CompareAndDelete(e.name, e)
	}
}

// gone reports whether c has ended and will not be restarted.
func (c *core) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.gone()
}

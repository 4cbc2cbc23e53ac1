package actor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Event is something that happens again and again, with a value of type E, and
// that any number of actors subscribe to. Any holder of the Event can publish; a name
// lets others find it. It ends with the actor or node that made it.
//
// Subscribers get the values as ordinary messages: each all values since it
// subscribed, in the order in which they were published. A subscriber that has
// stopped is forgotten.
type Event[E any] struct {
	name  string
	node  *Node
	owner *core
	keep  int
	watch func(active bool)

	publishing chan struct{} // of capacity 1: full while a value goes to all mailboxes, which keeps the order
	mu         sync.Mutex    // guards the fields below; never held while anything waits
	subs       receivers[E]  // lent to one publisher at most
	last       []E           // the last values, the oldest first
	ended      bool

	published atomic.Uint64
}

// EventOptions configure an [Event]; nil means the defaults.
type EventOptions struct {
	// Replay is how many of the last values a new subscriber gets first. Default 0.
	Replay int
	// Active is called with true when the first subscriber comes and with false when
	// the last has gone: in the turn of the actor that made the event, or, for an event
	// of a node, by the goroutine that subscribes. Subscribers that stop are noticed
	// when a value is published, or others subscribe. If two goroutines subscribe or
	// unsubscribe at once, an event of a node may call it at once too.
	Active func(active bool)
}

// NewEvent makes an event. An event with a name can be found by [LookupEvent];
// one without is known only to those who are given it. It fails with Exists if the
// name is taken by another event.
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

// LookupEvent returns the event of a name. It fails with NotFound if there is
// none, Invalid if its values are of another type.
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

// Owner returns the address of the actor that made the event, zero if it was the node.
func (e *Event[E]) Owner() Address {
	if e.owner == &e.node.root {
		return Address{}
	}
	return e.owner.address()
}

// Len returns how many actors are subscribed.
func (e *Event[E]) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.subs.refs)
}

// Subscribe lets r get all values from now on, after the last ones that the
// event keeps. An actor whose messages are not E subscribes through [Adapt]. An
// actor is subscribed once: a second Subscribe replaces the first and replays nothing.
// A subscription outlives restarts. It fails with Closed if the event or the actor has ended.
//
// Subscribe waits for no mailbox and no publisher. If the values that the event keeps do not
// fit into the actor's mailbox, it fails with Unavailable.
func (e *Event[E]) Subscribe(r Ref[E]) error {
	c := r.core()
	if c == nil || c.gone() {
		return fault("subscribe", r.Address(), ErrStopped)
	}
	e.mu.Lock()
	notices, err := e.subscribeLocked(r, c)
	e.mu.Unlock()
	e.notice(notices...)
	return err
}

// subscribeLocked returns what Active is to be called with. A value that is being
// published is among the last or was not kept: r gets the ones after it.
func (e *Event[E]) subscribeLocked(r Ref[E], c *core) (notices []bool, err error) {
	if e.ended {
		return nil, fault("subscribe to", Address{Node: e.node.name, Name: e.name}, ErrStopped)
	}
	if e.subs.replace(c, r) {
		return nil, nil
	}
	for _, v := range e.last {
		if err := r.Send(noWait, v); err != nil {
			return nil, err
		}
	}
	if e.subs.add(c, r) {
		notices = append(notices, false)
	}
	if len(e.subs.refs) == 1 {
		notices = append(notices, true)
	}
	return notices, nil
}

// Unsubscribe ends the subscription of an actor. Values that are in its mailbox
// stay there, and one that is being published may still come.
func (e *Event[E]) Unsubscribe(r AnyRef) {
	e.mu.Lock()
	emptied := e.subs.drop(r.core()) && len(e.subs.refs) == 0
	e.mu.Unlock()
	if emptied {
		e.notice(false)
	}
}

// giveBack takes back what a publisher was lent, and drops those of it that have
// stopped, unless they have subscribed anew.
func (e *Event[E]) giveBack(gone []Ref[E]) {
	e.mu.Lock()
	e.subs.lent = false
	emptied := e.subs.dropStopped(gone) && len(e.subs.refs) == 0
	e.mu.Unlock()
	if emptied {
		e.notice(false)
	}
}

// notice calls Active, which may use the event: the caller does not hold e.mu.
func (e *Event[E]) notice(active ...bool) {
	if e.watch != nil {
		for _, on := range active {
			e.watch(on)
		}
	}
}

// Publish puts v into the mailboxes of all subscribers and returns how many there
// were. ctx bounds the waiting for mailboxes with the policy [Block], and for others who
// publish: it fails with Canceled if ctx ends before its turn comes, Closed if the event
// has ended. A full mailbox is no error here: its policy decides about the value.
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
	e.mu.Lock()
	if e.ended {
		e.mu.Unlock()
		return 0, fault("publish", Address{Node: e.node.name, Name: e.name}, ErrStopped)
	}
	if e.keep > 0 {
		if len(e.last) == e.keep {
			e.last = append(e.last[:0:0], e.last[1:]...)
		}
		e.last = append(e.last, v)
	}
	subs := e.subs.lend()
	e.mu.Unlock()

	e.published.Add(1)
	gone := spread(ctx, subs, v)
	e.giveBack(gone)
	return len(subs) - len(gone), nil
}

// end ends the event: nothing can be published or subscribed to any more.
func (e *Event[E]) end() {
	e.mu.Lock()
	e.ended = true
	e.mu.Unlock()
	if e.name != "" {
		e.node.events.CompareAndDelete(e.name, e)
	}
}

// gone reports whether c has ended for good.
func (c *core) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.gone()
}

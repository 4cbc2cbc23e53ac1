package actor

import (
	"context"
	"reflect"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
)

// A transport does not know the types of events and groups: it uses them by name, through the
// interfaces farEvent and farGroup. A subscription of another node is an actor of this one, a
// tapActor, which passes the values on.

// tapMailbox is how many values may wait for one subscription of another node, besides those that
// are replayed. Then publishers wait.
const tapMailbox = 1024

// Tap is a subscription of another node to an event of this one: the functions that a transport
// gives to [Inbound.Subscribe]. They are called one at a time, Ready by the caller of Subscribe,
// the others in the turn of an actor.
type Tap struct {
	// Ready is called before the first value with the number of values that the event keeps.
	Ready func(keep int)
	// Value is called for each value, in the order of publishing. ctx ends when the subscription
	// is asked to end. Value may wait: when 1,024 values wait, publishers wait, too. An error
	// ends the subscription, without a call of Ended.
	Value func(ctx context.Context, v any) error
	// Ended is called once, after the last value, when the event or the node has ended.
	Ended func(reason error)
}

// Subscribe begins a subscription to the event of a name. It fails with NotFound if there is none,
// Closed if it has ended. cancel ends the subscription without a call of Ended and does not wait: a
// call of Value that has begun, or is just beginning, may still run when cancel has returned.
func (i Inbound) Subscribe(name string, t Tap) (cancel func(), err error) {
	e, err := i.event(name)
	if err != nil {
		return nil, err
	}
	return e.tap(t)
}

// EventType returns the type of the values of an event. It fails with NotFound if there is none.
func (i Inbound) EventType(name string) (reflect.Type, error) {
	e, err := i.event(name)
	if err != nil {
		return nil, err
	}
	return e.valueType(), nil
}

// Publish publishes a decoded value, which must be the caller's own, through the event of a name.
// It fails with NotFound if there is none, Invalid if its values are of another type, and as
// [Event.Publish] does.
func (i Inbound) Publish(ctx context.Context, name string, m any) error {
	e, err := i.event(name)
	if err != nil {
		return err
	}
	return e.publishAny(ctx, i.node.bind(m, 0))
}

// farEvent are the methods of an event for other nodes, without its type.
type farEvent interface {
	tap(t Tap) (cancel func(), err error)
	publishAny(ctx context.Context, v any) error
	valueType() reflect.Type
}

func (e *Event[E]) valueType() reflect.Type { return reflect.TypeFor[E]() }

func (i Inbound) event(name string) (farEvent, error) {
	if v, ok := i.node.events.Load(name); ok {
		return v.(farEvent), nil
	}
	return nil, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "look up event " + i.node.name + "/" + name}
}

// tapActor is the subscriber on behalf of another node.
type tapActor[E any] struct {
	t      Tap
	over   atomic.Bool           // cancelled, or Value has failed: no function of t is called any more
	reason atomic.Pointer[error] // why the event has ended, set before the actor is drained
}

// Receive passes a value on. An error of Value is a failure of the other node and not of this
// actor, which ends with Normal.
func (a *tapActor[E]) Receive(c *Context[E], v E) error {
	if a.over.Load() {
		return Normal
	}
	if err := a.t.Value(c, v); err != nil {
		a.over.Store(true)
		return Normal
	}
	return nil
}

// Stop reports the end of the event, or of this node, after the last value.
func (a *tapActor[E]) Stop(_ *Context[E], reason error) {
	if a.over.Load() {
		return
	}
	if r := a.reason.Load(); r != nil {
		reason = *r
	}
	a.t.Ended(reason)
}

// tap begins a subscription; see Inbound.Subscribe. When the event ends, its tapActor is drained,
// so that Ended comes after all values.
func (e *Event[E]) tap(t Tap) (cancel func(), err error) {
	a := &tapActor[E]{t: t}
	r, err := Spawn(e.node, a, &Options{Mailbox: tapMailbox + e.keep, Overflow: Block})
	if err != nil {
		return nil, err
	}
	t.Ready(e.keep)
	if err := e.Subscribe(r); err != nil {
		a.over.Store(true)
		r.Kill()
		return nil, err
	}
	// The owner's monitors are told in any order: e.end comes first here, too, so that nobody finds
	// the event after Ended.
	w := &watch{notify: func(reason error) {
		e.end()
		a.reason.Store(&reason)
		r.Drain()
	}}
	if e.owner != &e.node.root {
		w.begin(e.owner)
	}
	return func() {
		a.over.Store(true)
		w.forget()
		e.Unsubscribe(r)
		r.Kill()
	}, nil
}

func (e *Event[E]) publishAny(ctx context.Context, v any) error {
	typed, ok := as[E](v)
	if !ok {
		return invalidf("the values of the event %s/%s are %s, not %T", e.node.name, e.name, reflect.TypeFor[E](), v)
	}
	_, err := e.Publish(ctx, typed)
	return err
}

// Bind returns a decoded value, which must be the caller's own, with the references and replies in
// it bound to the node. Deliver, Answer, Publish and Broadcast do that themselves.
func (i Inbound) Bind(v any) any { return i.node.bind(v, 0) }

// farGroup are the methods of a group for other nodes, without its type.
type farGroup interface {
	broadcastAny(ctx context.Context, v any) (int, error)
	numbers() []uint64
}

// Broadcast puts a decoded message, which must be the caller's own, into the mailboxes of the
// members that a group has on this node, and returns how many there are: 0 if there is no group of
// the name. It fails with Invalid if they take other messages.
func (i Inbound) Broadcast(ctx context.Context, group string, m any) (int, error) {
	v, ok := i.node.groups.Load(group)
	if !ok {
		return 0, nil
	}
	return v.(farGroup).broadcastAny(ctx, i.node.bind(m, 0))
}

// Members returns the numbers of the members that a group has on this node, nil if there is no
// group of the name. The slice is the caller's.
func (i Inbound) Members(group string) []uint64 {
	if v, ok := i.node.groups.Load(group); ok {
		return v.(farGroup).numbers()
	}
	return nil
}

func (g *Group[M]) broadcastAny(ctx context.Context, v any) (int, error) {
	typed, ok := as[M](v)
	if !ok {
		return 0, invalidf("the members of the group %s/%s take %s, not %T", g.node.name, g.name, reflect.TypeFor[M](), v)
	}
	return g.Broadcast(ctx, typed)
}

func (g *Group[M]) numbers() []uint64 {
	members := g.Members()
	ids := make([]uint64, 0, len(members))
	for _, r := range members {
		ids = append(ids, r.core().id)
	}
	return ids
}

// Resolve returns the number of the actor that has a name on this node now, and the type of the
// messages that it takes. It fails with NotFound if there is none.
func (i Inbound) Resolve(name string) (id uint64, takes reflect.Type, err error) {
	v, ok := i.node.names.Load(name)
	if !ok {
		return 0, nil, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "look up " + i.node.name + "/" + name}
	}
	c := v.(*core)
	return c.id, c.ops.takes(), nil
}

func (p *process[M]) takes() reflect.Type { return reflect.TypeFor[M]() }

// Number returns the number of the actor of a reference, 0 if it refers to no actor of a node of
// this process.
func Number(a AnyRef) uint64 {
	if c := a.core(); c != nil {
		return c.id
	}
	return 0
}

package actor

import (
	"context"
	"reflect"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
)

// Events and groups have types that a transport does not know: it uses them by name.

// tapMailbox is how many values may wait to leave for one other node; then the actor that
// publishes waits.
const tapMailbox = 1024

// Tap is a subscription of another node to an event of this one.
type Tap struct {
	// Ready is called before the first value with the number of values that the event keeps.
	Ready func(keep int)
	// Value is called for each value, one after another; ctx ends with the subscription,
	// and so does the subscription with an error. It may wait: then publishers do.
	Value func(ctx context.Context, v any) error
	// Ended is called once, after the last value, if the event has ended.
	Ended func(reason error)
}

// Subscribe begins a subscription to the event of a name. It fails with NotFound if
// there is none, Closed if it has ended. Once cancel has returned, no further call begins.
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

// Publish publishes a value by the event of a name: m must be the caller's own, as decoded.
// It fails with NotFound if there is none, Invalid if its values are of another type.
func (i Inbound) Publish(ctx context.Context, name string, m any) error {
	e, err := i.event(name)
	if err != nil {
		return err
	}
	return e.publishAny(ctx, i.node.bind(m, 0))
}

// farEvent is what other nodes do with an event.
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

// tapActor is the subscriber that stands for another node.
type tapActor[E any] struct {
	t      Tap
	over   atomic.Bool
	reason atomic.Pointer[error] // why the event has ended
}

// Receive passes a value on. If that fails, the other node has failed, not the actor.
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

// Stop is called after the last value.
func (a *tapActor[E]) Stop(_ *Context[E], reason error) {
	if a.over.Load() {
		return
	}
	if r := a.reason.Load(); r != nil {
		reason = *r
	}
	a.t.Ended(reason)
}

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
	w := &watch{notify: func(reason error) {
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

// Bind returns a decoded value with the references and replies in it bound to the
// node: it must be the caller's own. Deliver, Answer, Publish and Broadcast do that themselves.
func (i Inbound) Bind(v any) any { return i.node.bind(v, 0) }

// farGroup is what other nodes do with a group.
type farGroup interface {
	broadcastAny(ctx context.Context, v any) (int, error)
	numbers() []uint64
}

// Broadcast puts a message into the mailboxes of the members that a group has on
// this node, and returns how many there are: none if there is no such group. m must be the caller's
// own, as decoded. It fails with Invalid if they take other messages.
func (i Inbound) Broadcast(ctx context.Context, group string, m any) (int, error) {
	v, ok := i.node.groups.Load(group)
	if !ok {
		return 0, nil
	}
	return v.(farGroup).broadcastAny(ctx, i.node.bind(m, 0))
}

// Members returns the numbers of the members that a group has on this node.
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

// Resolve returns the number of the actor that has a name now, and the type of the
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

// Number returns the number of an actor of this process's nodes, 0 if a refers to none.
func Number(a AnyRef) uint64 {
	if c := a.core(); c != nil {
		return c.id
	}
	return 0
}

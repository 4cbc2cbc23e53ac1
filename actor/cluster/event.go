package cluster

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
)

// Event is an event of another node, or of this one. However many actors of this node subscribe,
// each value crosses the wire once: this node has one subscription, and publishes the values by a
// local event, which replays as many last values to new subscribers as the other.
//
// The subscription is to one life of the event. When that ends, so do all subscriptions of this
// node (see [Event.OnEnd]); the next Subscribe subscribes to the event that has the name then. An
// Event is safe for concurrent use.
type Event[E any] struct {
	cluster *Cluster
	node    string
	name    string
	turn    chan struct{} // of capacity 1: held by Subscribe, and while a feed without subscribers ends

	mu    sync.Mutex                // guards the fields below
	feed  *feed[E]                  // the present subscription, nil: none
	onEnd map[*func(error)]struct{} // functions of OnEnd
}

// feed is a subscription of this node to one life of an event. It implements [sink].
//
//	begin: addSink, request OpSubscribe -> open: local event, Event.feed -> values
//	       -> end (by the peer), or cancel (by this node, after the last subscriber has gone)
//
// Values may come before the response to the request: the peer begins to send them while it still
// serves the request. They wait in early. Lock order: feed.mu before Event.mu.
type feed[E any] struct {
	event   *Event[E]
	session *session
	id      uint64 // number of the subscription in session.sinks

	mu    sync.Mutex      // guards the fields below; held during Publish, which keeps the order of values
	local *actor.Event[E] // set once, by open
	early []E             // values that came before open, at most maxEarly
}

// sink gets the values and the end of a subscription.
type sink interface {
	value(s *session, v frames.Value) error
	end(reason error)
}

// maxEarly is the number of values that may come before the response to a subscription.
const maxEarly = 1 << 16

// mirrors are the Events of a cluster. They are never removed.
type mirrors struct {
	mu  sync.Mutex // guards all
	all map[mirrorName]any
}

type mirrorName struct {
	node, name string
	values     reflect.Type
}

// EventAt returns the event of a name on a node. It does not look for the event: Subscribe and
// Publish do.
func EventAt[E any](c *Cluster, node, name string) *Event[E] {
	key := mirrorName{node, name, reflect.TypeFor[E]()}
	c.mirrors.mu.Lock()
	defer c.mirrors.mu.Unlock()
	if e, ok := c.mirrors.all[key].(*Event[E]); ok {
		return e
	}
	e := &Event[E]{cluster: c, node: node, name: name, turn: make(chan struct{}, 1), onEnd: make(map[*func(error)]struct{})}
	if c.mirrors.all == nil {
		c.mirrors.all = make(map[mirrorName]any)
	}
	c.mirrors.all[key] = e
	return e
}

// Subscribe sends an actor of this node all values from now on, after the last ones that the event
// replays. It fails with NotFound if there is no such event, Invalid if its values are of another
// type, Closed if the event or the actor has ended, Unavailable if the node cannot be reached,
// Canceled if ctx ends first.
func (e *Event[E]) Subscribe(ctx context.Context, r actor.Ref[E]) error {
	if e.node == e.cluster.node.Name() {
		local, err := actor.LookupEvent[E](e.cluster.node, e.name)
		if err != nil {
			return err
		}
		return local.Subscribe(r)
	}
	began := time.Now()
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return mainstem.Ended(ctx, "subscribe to "+e.node+"/"+e.name, began, "another call that subscribes to it")
	}
	if f := e.current(); f != nil {
		return f.local.Subscribe(r)
	}
	return e.begin(ctx, r)
}

// current returns the present subscription, nil if there is none.
func (e *Event[E]) current() *feed[E] {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.feed
}

// begin subscribes this node, for its first subscriber. The caller has the turn.
func (e *Event[E]) begin(ctx context.Context, first actor.Ref[E]) error {
	s, err := e.cluster.reach(ctx, e.node)
	if err != nil {
		return err
	}
	f := &feed[E]{event: e, session: s}
	if !s.addSink(f, &f.id) {
		return s.lost(actor.NodeDown)
	}
	q := frames.Request{Op: frames.OpSubscribe, Name: e.name, Messages: nameOf[E](e.cluster), Number: f.id}
	numbers, err := s.request(ctx, f.id, q, nil)
	if err == nil && len(numbers) != 1 {
		err = fmt.Errorf("%w: a subscription without the number of values that are kept", frames.ErrMalformed)
	}
	if err == nil {
		err = f.open(numbers[0], first)
	}
	if err != nil {
		f.cancel()
		return err
	}
	return nil
}

// maxReplay limits the number of values that another node can make this one keep for replay.
const maxReplay = 1 << 20

// open makes the local event with its first subscriber, and publishes the early values.
func (f *feed[E]) open(keep uint64, first actor.Ref[E]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	local, err := actor.NewEvent[E](f.event.cluster.node, "", &actor.EventOptions{Replay: int(min(keep, maxReplay)), Active: f.active})
	if err != nil {
		return err
	}
	if err := local.Subscribe(first); err != nil {
		return err
	}
	f.local = local
	f.event.mu.Lock()
	f.event.feed = f
	f.event.mu.Unlock()
	for _, v := range f.early {
		_, _ = local.Publish(f.session.arrival, v)
	}
	f.early = nil
	if !f.session.hasSink(f.id) {
		return f.session.lost(actor.NodeDown) // the subscription has ended meanwhile
	}
	return nil
}

// active is called when the local event gets its first subscriber and has lost its last. Then it
// ends the subscription, unless another has come before it has the turn.
func (f *feed[E]) active(on bool) {
	if on {
		return
	}
	f.event.cluster.work.Go(func() {
		select {
		case f.event.turn <- struct{}{}:
			defer func() { <-f.event.turn }()
		case <-f.session.life.Done():
			return
		}
		if f.local.Len() == 0 {
			f.cancel()
		}
	})
}

// cancel ends the subscription from this node. It does nothing if it has ended.
func (f *feed[E]) cancel() {
	f.leave()
	if remove(f.session, &f.session.sinks, f.id) != nil {
		q := frames.Request{Op: frames.OpUnsubscribe, Number: f.id}
		f.session.replies.send(f.id, q.AppendHead)
	}
}

// leave removes f from its event, if it is the present subscription.
func (f *feed[E]) leave() {
	f.event.mu.Lock()
	defer f.event.mu.Unlock()
	if f.event.feed == f {
		f.event.feed = nil
	}
}

// value publishes a value of the peer by the local event, or keeps it until open.
func (f *feed[E]) value(s *session, data frames.Value) error {
	v, err := decodeAs[E](s, data)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.local != nil {
		_, _ = f.local.Publish(s.arrival, v)
		return nil
	}
	if len(f.early) == maxEarly {
		return fmt.Errorf("%w: more than %d values before the answer to a subscription", frames.ErrMalformed, maxEarly)
	}
	f.early = append(f.early, v)
	return nil
}

// decodeAs decodes a value of the peer that must be an E, or nil, which is the zero E.
func decodeAs[E any](s *session, data frames.Value) (v E, err error) {
	if data.Type != 0 {
		k, err := s.kindNumbered(data.Type)
		if err != nil {
			return v, err
		}
		if k.typ == reflect.TypeFor[E]() {
			err = k.Into(data.Data, &v)
			if err == nil {
				v, _ = s.cluster.in.Bind(v).(E)
			}
			return v, err
		}
	}
	decoded, err := s.value(data)
	if err != nil || decoded == nil {
		return v, err
	}
	v, ok := s.cluster.in.Bind(decoded).(E)
	if !ok {
		err = fmt.Errorf("%w: a value of an event is a %T: want %s", frames.ErrMalformed, decoded, reflect.TypeFor[E]())
	}
	return v, err
}

// end is called when the peer has ended the subscription or is down. It calls the functions of OnEnd.
func (f *feed[E]) end(reason error) {
	f.leave()
	e := f.event
	e.mu.Lock()
	onEnd := e.onEnd
	e.onEnd = make(map[*func(error)]struct{})
	e.mu.Unlock()
	for f := range onEnd {
		_ = guard(func() error { (*f)(reason); return nil })
	}
}

// Unsubscribe ends the subscription of an actor of this node. Values in its mailbox stay there, and
// one that is being published may still come.
func (e *Event[E]) Unsubscribe(r actor.AnyRef) {
	if e.node == e.cluster.node.Name() {
		if local, err := actor.LookupEvent[E](e.cluster.node, e.name); err == nil {
			local.Unsubscribe(r)
		}
	} else if f := e.current(); f != nil {
		f.local.Unsubscribe(r)
	}
}

// Publish publishes a value by the event, on its node, and returns when that is done. It fails with
// NotFound if there is no such event, Invalid if its values are of another type, Unavailable if the
// node cannot be reached. After Canceled the value may have been published.
func (e *Event[E]) Publish(ctx context.Context, v E) error {
	if e.node == e.cluster.node.Name() {
		local, err := actor.LookupEvent[E](e.cluster.node, e.name)
		if err == nil {
			_, err = local.Publish(ctx, v)
		}
		return err
	}
	s, err := e.cluster.reach(ctx, e.node)
	if err != nil {
		return err
	}
	_, err = s.request(ctx, e.cluster.in.Sender(ctx), frames.Request{Op: frames.OpPublish, Name: e.name}, v)
	return err
}

// OnEnd calls f once, when the subscriptions of this node end because the event has ended or its
// node is down, with the reason. f must not block. cancel removes f. For an event of this node f is
// not called.
func (e *Event[E]) OnEnd(f func(reason error)) (cancel func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onEnd[&f] = struct{}{}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.onEnd, &f)
	}
}

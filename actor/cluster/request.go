package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
)

// outcome is the result of a request.
type outcome struct {
	numbers []uint64
	err     error
}

// request sends a request, with a value unless it is nil, from an actor by number or 0, and waits
// for its response. It fails with the error of the peer, Unavailable if the session ends first, or
// Canceled if ctx does; then the peer may have served the request.
func (s *session) request(ctx context.Context, from uint64, q frames.Request, value any) ([]uint64, error) {
	if len(q.Name) > actor.MaxName {
		return nil, invalidf("the name %.64q has %d bytes: the limit is %d", q.Name, len(q.Name), actor.MaxName)
	}
	k, err := s.kindOf(ctx, value)
	if err != nil {
		return nil, err
	}
	if k != nil {
		q.Type = k.number
	}
	q.TTL = ttl(ctx)
	done := make(chan outcome, 1)
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil, s.lost(context.Cause(s.life))
	}
	q.ID = s.numberLocked()
	s.pending[q.ID] = done
	s.mu.Unlock()
	defer remove(s, &s.pending, q.ID)
	err = s.peer.Send(ctx, lane(from), link.ExactlyOnce, func(dst []byte) ([]byte, error) {
		dst = q.AppendHead(dst)
		if k == nil {
			return dst, nil
		}
		return s.cluster.kinds.codec.Append(dst, value)
	})
	if err != nil {
		return nil, sendFailed(s.there(frames.Target{Name: q.Name}), err)
	}
	began := time.Now()
	select {
	case o := <-done:
		return o.numbers, o.err
	case <-ctx.Done():
		return nil, mainstem.Ended(ctx, "ask node "+s.name, began, "its answer")
	}
}

func (s *session) onResponse(body []byte) error {
	f, err := frames.ParseResponse(body)
	if err != nil {
		return err
	}
	o := outcome{numbers: f.Numbers}
	if f.Failed {
		o.err = s.cluster.parseError(f.Error)
	}
	if done := remove(s, &s.pending, f.ID); done != nil {
		done <- o
	}
	return nil
}

// onRequest serves a request in a goroutine of its own, since that may take long. At maxRequests it
// waits for another one to be done. Subscriptions are begun and ended in the order of the requests.
func (s *session) onRequest(body []byte) error {
	q, err := frames.ParseRequest(body)
	if err != nil {
		return err
	}
	v, err := s.value(q.Value)
	if err != nil {
		s.respond(q, nil, err)
		return err
	}
	q.Data = nil // its bytes are valid until onRequest returns
	switch q.Op {
	case frames.OpUnsubscribe:
		s.unsubscribe(q.Number)
		s.respond(q, nil, nil)
		return nil
	case frames.OpSubscribe:
		if err := s.reserve(q); err != nil {
			s.respond(q, nil, err)
			return nil
		}
	}
	select {
	case s.limit <- struct{}{}:
	case <-s.life.Done():
		return nil
	}
	s.cluster.work.Go(func() {
		defer func() { <-s.limit }()
		ctx := s.arrival
		if end := deadline(q.TTL); !end.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(s.arrival, end)
			defer cancel()
		}
		var numbers []uint64
		var err error
		if panicked := guard(func() error { numbers, err = s.serve(ctx, q, v); return nil }); panicked != nil {
			err = panicked
		}
		s.respond(q, numbers, err)
	})
	return nil
}

// respond sends the response to a request of the peer.
func (s *session) respond(q frames.Request, numbers []uint64, err error) {
	f := frames.Response{ID: q.ID, Failed: err != nil, Numbers: numbers}
	if size := len(f.AppendHead(nil)); err == nil && size > s.peer.MaxMessage() {
		err = invalidf("the answer has %d bytes, and a message between these nodes at most %d: raise Options.MaxMessage", size, s.peer.MaxMessage())
		f.Failed, f.Numbers = true, nil
	}
	if err != nil {
		f.Error = s.encodeError(err)
	}
	s.replies.send(laneOf(q), func(dst []byte) []byte { return append(f.AppendHead(dst), f.Error...) })
}

// laneOf returns the number that determines the lane of a response. The response to OpSubscribe has
// the lane of the subscription's values, and arrives before those that are sent after it.
func laneOf(q frames.Request) uint64 {
	if q.Op == frames.OpSubscribe {
		return q.Number
	}
	return 0
}

// serve carries out a request of the peer and returns the numbers of its response.
func (s *session) serve(ctx context.Context, q frames.Request, v any) ([]uint64, error) {
	c := s.cluster
	switch q.Op {
	case frames.OpResolve:
		id, takes, err := c.in.Resolve(q.Name)
		if err == nil {
			err = c.takes(q.Messages, takes, q.Name)
		}
		return []uint64{id}, err
	case frames.OpSpawn:
		return c.offers.spawn(s.name, q, v)
	case frames.OpStartApp, frames.OpStopApp:
		return nil, c.offers.app(ctx, s.name, q)
	case frames.OpSubscribe:
		return s.subscribe(q)
	case frames.OpPublish:
		return nil, c.in.Publish(ctx, q.Name, v)
	case frames.OpMembers:
		return c.in.Members(q.Name), nil
	}
	return nil, mainstem.Errorf(mainstem.KindUnsupported, "serve node "+s.name, "request %d is not known here", q.Op)
}

var errTakesOther = errors.New("it takes other messages")

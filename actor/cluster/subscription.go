package cluster

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
)

// A subscription of this node to an event of the peer is a sink there: values and the end of the
// event come under its number. A subscription of the peer to an event of this node is a tap.

// addSink adds a subscription of this node and sets *id to its number. It returns false if the
// session has ended.
func (s *session) addSink(to sink, id *uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	*id = s.numberLocked()
	s.sinks[*id] = to
	return true
}

// hasSink reports whether a subscription of this node has not ended.
func (s *session) hasSink(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sinks[id] != nil
}

func (s *session) onEvent(body []byte) error {
	f, err := frames.ParseEvent(body)
	if err != nil {
		return err
	}
	s.mu.Lock()
	to := s.sinks[f.Subscription]
	s.mu.Unlock()
	if to == nil {
		return nil // this node has ended the subscription meanwhile
	}
	return to.value(s, f.Value)
}

func (s *session) onEventEnd(body []byte) error {
	n, err := frames.ParseNotice(body, frames.KindEventEnd)
	if err != nil {
		return err
	}
	if to := remove(s, &s.sinks, n.ID); to != nil {
		to.end(s.cluster.parseError(n.Reason))
	}
	return nil
}

// reserve takes the number of a subscription of the peer. It runs in the order of the requests, so
// that a request to end the subscription finds it, even if subscribe has not begun.
func (s *session) reserve(q frames.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.taps[q.Number]; taken || s.ended {
		return mainstem.Errorf(mainstem.KindExists, "subscribe to "+q.Name, "number %d is in use", q.Number)
	}
	s.taps[q.Number] = func() {}
	return nil
}

// subscribe subscribes the peer to an event of this node, under the number that reserve took, and
// returns the number of values that the event replays to new subscribers.
func (s *session) subscribe(q frames.Request) ([]uint64, error) {
	c := s.cluster
	kept := 0
	values, err := c.in.EventType(q.Name)
	if err == nil {
		err = c.takes(q.Messages, values, q.Name)
	}
	var cancel func()
	if err == nil {
		cancel, err = c.in.Subscribe(q.Name, actor.Tap{
			Ready: func(keep int) { kept = keep },
			Value: func(ctx context.Context, v any) error {
				err := s.sendEvent(ctx, q.Number, v)
				if err != nil {
					s.endTap(q.Number, err)
				}
				return err
			},
			Ended: func(reason error) { s.endTap(q.Number, reason) },
		})
	}
	if err != nil {
		remove(s, &s.taps, q.Number)
		return nil, err
	}
	s.setCancel(&s.taps, q.Number, cancel)
	return []uint64{uint64(kept)}, nil
}

// endTap tells the peer that its subscription has ended, unless it has ended it itself.
func (s *session) endTap(number uint64, reason error) {
	if remove(s, &s.taps, number) != nil {
		s.notice(frames.KindEventEnd, number, number, reason)
	}
}

// unsubscribe ends a subscription of the peer. It does not wait for values that are being sent.
func (s *session) unsubscribe(number uint64) {
	if cancel := remove(s, &s.taps, number); cancel != nil {
		s.cluster.work.Go(cancel)
	}
}

// sendEvent sends a value of an event, once for all subscribers at the peer, and waits for credit.
func (s *session) sendEvent(ctx context.Context, subscription uint64, v any) error {
	k, err := s.kindOf(ctx, v)
	if err != nil {
		return err
	}
	f := frames.Event{Subscription: subscription}
	if k != nil {
		f.Type = k.number
	}
	return s.peer.Send(ctx, lane(subscription), link.ExactlyOnce, func(dst []byte) ([]byte, error) {
		dst = f.AppendHead(dst)
		if k == nil {
			return dst, nil
		}
		return s.cluster.kinds.codec.Append(dst, v)
	})
}

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

var _ actor.Transport = (*Cluster)(nil)

// lossy is the key of contexts for sends that may be lost.
type lossy struct{}

// AtMostOnce returns a context for sends that rather lose a message than send it
// again when a connection breaks: they wait for no acknowledgement and cost less.
func AtMostOnce(ctx context.Context) context.Context {
	return context.WithValue(ctx, lossy{}, true)
}

// Send carries a message. It is what [actor.Ref.Send] calls.
func (c *Cluster) Send(ctx context.Context, m actor.Outbound) error {
	s, err := c.live(ctx, m.To)
	if err != nil {
		return err
	}
	k, err := s.kindOf(ctx, m.Message)
	if err != nil {
		return err
	}
	f := frames.Message{To: target(m.To), Priority: byte(m.Priority), Trace: m.Trace}
	if len(m.Trace) > frames.MaxText {
		f.Trace = nil // too much to go along
	}
	if k != nil {
		f.Type = k.number
	}
	if m.Question.ID != 0 {
		f.Question = m.Question.ID
		if m.Question.Node != c.node.Name() {
			f.Asker, f.Start = m.Question.Node, m.Question.Start
		}
		f.TTL = ttl(ctx)
	}
	mode := link.ExactlyOnce
	if ctx.Value(lossy{}) != nil {
		mode = link.AtMostOnce
	}
	err = s.peer.Send(ctx, lane(m.From), mode, func(dst []byte) ([]byte, error) {
		dst = f.AppendHead(dst)
		if k == nil {
			return dst, nil
		}
		return c.kinds.codec.Append(dst, m.Message)
	})
	if err != nil {
		return sendFailed(m.To, err)
	}
	return nil
}

// ttl returns how many milliseconds are left of ctx, 0 if it has no deadline.
func ttl(ctx context.Context) uint64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return uint64(max(1, time.Until(deadline).Milliseconds()))
}

// sendFailed is the error of a message that was not taken. Errors of the codec are
// mistakes of the sender.
func sendFailed(to actor.Address, err error) error {
	var known *mainstem.Error
	switch {
	case errors.As(err, &known) && known.Kind == mainstem.KindClosed:
		return unreachable(to.Node, err)
	case known != nil:
		return err
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "send to " + to.String(), Err: err}
}

// Answer carries an answer.
func (c *Cluster) Answer(from uint64, to actor.Address, v any, err error) error {
	if to.Node == c.node.Name() {
		return actor.ErrReplied // or the reply would have been of this node
	}
	s, lost := c.live(c.life, to)
	if lost != nil {
		return lost
	}
	f := frames.Answer{Question: to.ID, Failed: err != nil}
	if err != nil {
		// Dropped messages are answered by those who bring others: they do not wait.
		reason := s.cluster.appendError(nil, err)
		s.replies.send(from, func(dst []byte) []byte { return append(f.AppendHead(dst), reason...) })
		return nil
	}
	k, err := s.kindOf(s.life, v)
	if err != nil {
		failed := frames.Answer{Question: to.ID, Failed: true}
		reason := s.cluster.appendError(nil, err)
		s.replies.send(from, func(dst []byte) []byte { return append(failed.AppendHead(dst), reason...) })
		return err
	}
	if k != nil {
		f.Type = k.number
	}
	err = s.peer.Send(s.life, lane(from), link.ExactlyOnce, func(dst []byte) ([]byte, error) {
		dst = f.AppendHead(dst)
		if k == nil {
			return dst, nil
		}
		return c.kinds.codec.Append(dst, v)
	})
	if err != nil {
		return sendFailed(to, err)
	}
	return nil
}

// Monitor asks the node of an actor for a notice of its end.
func (c *Cluster) Monitor(from uint64, to actor.Address, f func(reason error)) (cancel func()) {
	s, err := c.live(c.life, to)
	if err != nil {
		f(actor.NodeDown)
		return func() {}
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		f(actor.NodeDown)
		return func() {}
	}
	m := frames.Monitor{ID: s.numberLocked(), To: target(to)}
	s.monitors[m.ID] = f
	s.mu.Unlock()
	if s.sendFrame(s.life, from, m.Append) != nil {
		s.down(m.ID, actor.NodeDown)
	}
	return func() {
		if remove(s, &s.monitors, m.ID) != nil {
			d := frames.Demonitor{ID: m.ID}
			s.replies.send(from, d.Append)
		}
	}
}

// down reports an end to the one who monitors.
func (s *session) down(id uint64, reason error) {
	if f := remove(s, &s.monitors, id); f != nil {
		f(reason)
	}
}

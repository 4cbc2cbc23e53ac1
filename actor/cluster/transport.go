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

// AtMostOnce returns a context for sends whose message may be lost when a connection breaks. It is
// not kept for an acknowledgement, which costs less.
func AtMostOnce(ctx context.Context) context.Context {
	return context.WithValue(ctx, lossy{}, true)
}

// Send implements [actor.Transport]: [actor.Ref.Send] calls it for an actor of another node. It dials
// the node if it is not up, and waits for the peer's answer about the type and for credit. When it
// returns the message is encoded.
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
		f.Trace = nil // too large for a frame
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

// ttl returns how many milliseconds are left of ctx, at least 1, or 0 if it has no deadline.
func ttl(ctx context.Context) uint64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return uint64(max(1, time.Until(deadline).Milliseconds()))
}

// sendFailed returns the error of a message that link did not accept. The end of the session makes it
// Unavailable. An error of another package, that of the codec, makes it Invalid.
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

// Answer implements [actor.Transport]: it sends the answer to a question of another node, from the
// actor from, 0 for none. If the question was dropped, Answer does not wait until the node is dialed.
func (c *Cluster) Answer(from uint64, to actor.Address, v any, err error) error {
	if to.Node == c.node.Name() {
		return actor.ErrReplied // a question of this node that is still open has a local reply
	}
	if errors.Is(err, actor.ErrNoReply) && c.known(to) == nil {
		c.answerLater(from, to, err)
		return nil
	}
	s, lost := c.live(c.life, to)
	if lost != nil {
		return lost
	}
	return s.answer(from, to, v, err)
}

// maxLate is the number of answers that wait until the nodes of their questions are dialed. At the
// limit the caller of answerLater waits for another one to be done.
const maxLate = 1024

// answerLater fails a question that was dropped, from a goroutine: it may have come from a third node,
// which must be dialed first, and the caller may be a reader that drops the message.
func (c *Cluster) answerLater(from uint64, to actor.Address, err error) {
	select {
	case c.late <- struct{}{}:
	case <-c.life.Done():
		return
	}
	c.work.Go(func() {
		defer func() { <-c.late }()
		if s, lost := c.live(c.life, to); lost == nil {
			_ = s.answer(from, to, nil, err)
		}
	})
}

// answer sends the peer the answer to one of its questions.
func (s *session) answer(from uint64, to actor.Address, v any, err error) error {
	fail := func(err error) {
		// It must not wait for credit: the caller may be a reader that drops a message.
		f, reason := frames.Answer{Question: to.ID, Failed: true}, s.encodeError(err)
		s.replies.send(from, func(dst []byte) []byte { return append(f.AppendHead(dst), reason...) })
	}
	if err != nil {
		fail(err)
		return nil
	}
	k, err := s.kindOf(s.life, v)
	if err != nil {
		fail(err)
		return err
	}
	f := frames.Answer{Question: to.ID}
	if k != nil {
		f.Type = k.number
	}
	err = s.peer.Send(s.life, lane(from), link.ExactlyOnce, func(dst []byte) ([]byte, error) {
		dst = f.AppendHead(dst)
		if k == nil {
			return dst, nil
		}
		return s.cluster.kinds.codec.Append(dst, v)
	})
	if err != nil {
		err = sendFailed(to, err)
		if mainstem.KindOf(err) == mainstem.KindInvalid { // too large, or it cannot be encoded
			fail(err)
		}
		return err
	}
	return nil
}

// Monitor implements [actor.Transport]: it asks the node of an actor for a notice of its end. f is
// called once, with NodeDown if the node is not reached or goes down, unless cancel was called
// before.
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

// down calls the callback of a monitor of this node, unless it was removed.
func (s *session) down(id uint64, reason error) {
	if f := remove(s, &s.monitors, id); f != nil {
		f(reason)
	}
}

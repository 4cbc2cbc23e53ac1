package cluster

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
)

// handler is the [link.Handler] of a cluster.
type handler struct {
	c      *Cluster
	opened chan struct{} // closed when c.end is set
}

// Up begins a session. It is in the table before watchers are called.
func (h handler) Up(p *link.Peer) {
	<-h.opened
	c := h.c
	s := newSession(c, p)
	c.log.Info("node is up", "node", s.name, "start", s.start)
	c.watchers.notify(s.arrival, func() {
		c.change(func(t *sessions) { t.byName[s.name], t.byPeer[p] = s, s })
		c.down.remove(s.name)
	}, NodeEvent{NodeInfo: s.info(), Up: true})
	// Since s is in the table, Cluster.announce sends it the types that are registered from now on.
	s.announce(c.kinds.table.Load().byNumber)
}

// Down ends a session: it is not in the table any more, and everything that depends on it was
// notified, before watchers are called.
func (h handler) Down(p *link.Peer, reason error) {
	c := h.c
	s := c.sessions.Load().of(p)
	if s == nil {
		return
	}
	c.log.Info("node is down", "node", s.name, "start", s.start, "reason", reason)
	c.watchers.notify(c.in.Arriving(c.life), func() {
		c.down.put(s.info(), reason)
		c.change(func(t *sessions) {
			delete(t.byPeer, p)
			if t.byName[s.name] == s {
				delete(t.byName, s.name)
			}
		})
		s.end(reason)
	}, NodeEvent{NodeInfo: s.info(), Reason: reason})
}

// Message handles a frame. A malformed one is refused, counted and logged.
func (h handler) Message(p *link.Peer, lane uint32, body []byte) {
	s := h.c.sessions.Load().of(p)
	if s == nil {
		return
	}
	var err error
	if panicked := guard(func() error { err = s.take(lane, body); return nil }); panicked != nil {
		err = panicked // in a method of a user's type
	}
	if err != nil {
		s.refuse(body, err)
	}
}

// logEvery: of the refused frames of a session, the first three and every thousandth are logged.
const logEvery = 1000

// refuse counts a refused frame, and logs it or not.
func (s *session) refuse(body []byte, err error) {
	s.cluster.malformed.Add(1)
	if n := s.refused.Add(1); n <= 3 || n%logEvery == 0 {
		s.cluster.log.Warn("a frame of another node was refused", "node", s.name, "kind", int(frames.KindOf(body)),
			"bytes", len(body), "refused", n, slog.Any("err", err))
	}
}

// take handles a frame by its kind. It returns an error for a malformed frame only: if a correct one
// fails, its handler has sent the peer an error or made a dead letter.
func (s *session) take(lane uint32, body []byte) error {
	switch k := frames.KindOf(body); k {
	case frames.KindMessage:
		return s.onMessage(body)
	case frames.KindAnswer:
		return s.onAnswer(body)
	case frames.KindMonitor:
		return s.onMonitor(body)
	case frames.KindDemonitor:
		return s.onDemonitor(body)
	case frames.KindDown:
		n, err := frames.ParseNotice(body, k)
		if err == nil {
			s.down(n.ID, s.cluster.parseError(n.Reason))
		}
		return err
	case frames.KindLink:
		return s.onLink(body)
	case frames.KindUnlink, frames.KindExit:
		return s.onUnlink(body)
	case frames.KindControl:
		return s.onControl(body)
	case frames.KindMark:
		return s.onMark(lane, body)
	case frames.KindRequest:
		return s.onRequest(body)
	case frames.KindResponse:
		return s.onResponse(body)
	case frames.KindEvent:
		return s.onEvent(body)
	case frames.KindEventEnd:
		return s.onEventEnd(body)
	case frames.KindGroup:
		return s.onGroup(body)
	case frames.KindCatalog:
		return s.onCatalog(body)
	case frames.KindTypeAck:
		return s.onTypeAck(body)
	}
	return fmt.Errorf("%w: there is no such kind", frames.ErrMalformed)
}

// onMessage puts a message into its mailbox. If that fails, the runtime has made a dead letter of
// it and answered its question.
func (s *session) onMessage(body []byte) error {
	f, err := frames.ParseMessage(body)
	if err != nil {
		return err
	}
	if f.Priority > byte(actor.Urgent) {
		return fmt.Errorf("%w: priority %d", frames.ErrMalformed, f.Priority)
	}
	d := actor.Delivery{To: s.here(f.To), Priority: actor.Priority(f.Priority), Trace: f.Trace}
	if f.Question != 0 {
		d.Question = s.asker(&f)
		d.Deadline = deadline(f.TTL)
	}
	if f.Type != 0 {
		k, err := s.kindNumbered(f.Type)
		if err != nil {
			_ = s.cluster.in.Refuse(d, err)
			return err
		}
		d.Encoded, d.Data = k, f.Data
	}
	if err := s.cluster.in.Deliver(s.arrival, d); err != nil && mainstem.KindOf(err) == mainstem.KindInternal {
		return err // of the codec, although this node has answered that it can read the type
	}
	return nil
}

// asker returns the address of a question, to which its answer is sent: at the peer, or at the node
// from which the peer has forwarded it.
func (s *session) asker(f *frames.Message) actor.Address {
	if f.Asker == "" {
		return actor.Address{Node: s.name, Start: s.start, ID: f.Question}
	}
	return actor.Address{Node: f.Asker, Start: f.Start, ID: f.Question}
}

// maxTTL is the longest TTL of a deadline, in milliseconds; longer ones are cut.
const maxTTL = uint64(365 * 24 * time.Hour / time.Millisecond)

// deadline returns the time in ttl milliseconds, the zero time (none) for 0.
func deadline(ttl uint64) time.Time {
	if ttl == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(min(ttl, maxTTL)) * time.Millisecond)
}

func (s *session) onAnswer(body []byte) error {
	f, err := frames.ParseAnswer(body)
	if err != nil {
		return err
	}
	to := s.here(frames.Target{ID: f.Question})
	if f.Failed {
		_ = s.cluster.in.Answer(to, nil, s.cluster.parseError(f.Data)) // fails if the asker has given up
		return nil
	}
	v, err := s.value(f.Value)
	_ = s.cluster.in.Answer(to, v, err)
	return err
}

func (s *session) onMonitor(body []byte) error {
	f, err := frames.ParseMonitor(body)
	if err != nil {
		return err
	}
	to := s.here(f.To)
	number := s.cluster.in.Number(to)
	s.mu.Lock()
	if _, taken := s.watched[f.ID]; taken || s.ended || len(s.watched) >= maxWatches {
		s.mu.Unlock()
		s.notice(frames.KindDown, number, f.ID, errWatches)
		return nil
	}
	s.watched[f.ID] = func() {}
	s.mu.Unlock()
	cancel := s.cluster.in.Monitor(to, func(reason error) {
		if remove(s, &s.watched, f.ID) != nil {
			s.notice(frames.KindDown, number, f.ID, reason)
		}
	})
	s.setCancel(&s.watched, f.ID, cancel)
	return nil
}

// notice sends the end of a monitor or subscription of the peer, by its number.
func (s *session) notice(k frames.Kind, from, id uint64, reason error) {
	n := frames.Notice{Kind: k, ID: id}
	text := s.encodeError(reason)
	s.replies.send(from, func(dst []byte) []byte { return append(n.AppendHead(dst), text...) })
}

func (s *session) onDemonitor(body []byte) error {
	f, err := frames.ParseDemonitor(body)
	if err != nil {
		return err
	}
	if cancel := remove(s, &s.watched, f.ID); cancel != nil {
		cancel()
	}
	return nil
}

// Undelivered makes a dead letter of an undelivered message of an actor or a group; its question
// fails. All other frames have entries in the session, which ends next, or need no notice.
func (h handler) Undelivered(p *link.Peer, body []byte, reason error) {
	s := h.c.sessions.Load().of(p)
	if s == nil {
		return
	}
	var to actor.Address
	var v frames.Value
	var question uint64
	switch frames.KindOf(body) {
	case frames.KindMessage:
		f, err := frames.ParseMessage(body)
		if err != nil {
			return
		}
		to, v = s.there(f.To), f.Value
		if f.Asker == "" {
			question = f.Question
		}
	case frames.KindGroup:
		f, err := frames.ParseGroup(body)
		if err != nil {
			return
		}
		to, v = s.there(frames.Target{Name: f.Name}), f.Value
	default:
		return
	}
	var m any
	if table := h.c.kinds.table.Load(); v.Type != 0 && v.Type <= uint64(len(table.byNumber)) {
		_ = guard(func() (err error) { m, err = table.byNumber[v.Type-1].Value(v.Data); return err })
	}
	h.c.in.Undelivered(to, h.c.in.Bind(m), question, s.lost(reason))
}

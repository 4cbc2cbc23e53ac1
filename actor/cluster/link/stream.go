package link

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// stream is one of the ordered sequences of messages of a session, in each
// direction; lanes are divided among them. One connection at a time carries it.
type stream struct {
	p     *Peer
	index uint16

	// taken is the last numbered frame of the peer that is not needed again, handled the
	// last whose messages the handler has returned from.
	taken, handled atomic.Uint64
	parted         atomic.Bool   // the peer has said its farewell on it
	handledBytes   atomic.Uint64 // of the payloads of numbered frames
	takenMessages  atomic.Uint64
	takenBytes     atomic.Uint64

	parts parts // the reader's own

	ackAfter uint64 // after how many bytes the peer gets an acknowledgement at once

	large chan struct{} // held by the Send whose message goes out in parts
	lost  chan struct{} // tells the redialer that there is no connection
	join  sync.Mutex    // serializes attach

	mu      sync.Mutex // guards the fields below
	out     outbox
	conn    *conn // nil: none
	past    *conn // the last one, whose goroutines may not have ended yet
	ended   error // why nothing is taken any more
	left    bool  // there were leftovers when it ended
	closing bool  // nothing new is taken
	waiters []chan struct{}
	drained chan struct{} // closed when out is empty, if somebody waits for that
	began   time.Time     // when conn, or the last one, was attached
	lostAt  time.Time     // when the last one failed; zero until then
	giveUp  *time.Timer   // ends the session, while conn is nil

	blocked    uint64
	sentBytes  uint64
	sentFrames uint64
	reconnects uint64
}

func newStream(p *Peer, index uint16, window int) *stream {
	s := &stream{p: p, index: index, ackAfter: uint64(min(ackBytes, window/8)), out: newOutbox(window, p.maxMessage), large: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
	s.giveUp = time.AfterFunc(math.MaxInt64, s.expire) // until launch says when
	return s
}

// send takes a message; see [Peer.Send].
func (s *stream) send(ctx context.Context, lane uint32, m Mode, f func([]byte) ([]byte, error)) error {
	spilled, done, err := s.sendSmall(ctx, lane, m, f)
	if done || err != nil {
		return err
	}
	if len(spilled) > s.p.maxMessage {
		return fault(mainstem.KindInvalid, "send to "+s.p.name,
			fmt.Errorf("the message has %d bytes: the limit of both ends is %d", len(spilled), s.p.maxMessage))
	}
	if len(spilled) <= frame.MaxBody {
		return s.sendPart(ctx, 0, lane, spilled, m == ExactlyOnce, nil)
	}
	return s.sendLarge(ctx, lane, spilled)
}

// sendSmall encodes a message into the outbox, or returns it if it does not fit.
func (s *stream) sendSmall(ctx context.Context, lane uint32, m Mode, f func([]byte) ([]byte, error)) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admitted(ctx); err != nil {
		return nil, false, err
	}
	spilled, fits, err := s.out.append(lane, m, f)
	if err != nil || !fits {
		s.pass()
		return spilled, false, err
	}
	s.ring()
	return nil, true, nil
}

// sendPart copies a body into the outbox: a message, or a part of one. Of the last part
// whole is the message.
func (s *stream) sendPart(ctx context.Context, fl frame.Flags, lane uint32, body []byte, numbered bool, whole []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admitted(ctx); err != nil {
		return err
	}
	s.out.place(fl, lane, body, numbered)
	if whole != nil {
		s.out.finishLarge(whole)
	}
	s.ring()
	return nil
}

// sendLarge sends a message in parts. One does at a time, so that the receiver has
// one to put together; other messages may go between the parts.
func (s *stream) sendLarge(ctx context.Context, lane uint32, body []byte) error {
	if err := s.holdLarge(ctx); err != nil {
		return err
	}
	defer func() { <-s.large }()
	for rest := body; ; {
		part := rest[:min(len(rest), frame.MaxBody)]
		rest = rest[len(part):]
		var err error
		if len(rest) == 0 {
			if err = s.sendPart(ctx, frame.Part, lane, part, true, body); err == nil {
				return nil
			}
		} else {
			err = s.sendPart(ctx, frame.Part|frame.More, lane, part, true, nil)
		}
		if err != nil {
			s.void(lane)
			return err
		}
	}
}

// holdLarge waits for its turn to send in parts.
func (s *stream) holdLarge(ctx context.Context) error {
	select {
	case s.large <- struct{}{}:
		return nil
	default:
	}
	if ctx == nil {
		return s.noCredit()
	}
	select {
	case s.large <- struct{}{}:
		return nil
	case <-ctx.Done():
		return s.tooLate(ctx)
	case <-s.p.done:
		return s.p.over()
	}
}

// void takes the parts back that have been sent.
func (s *stream) void(lane uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.out.place(frame.Part|frame.Void, lane, nil, true)
		s.ring()
	}
}

// admitted waits for credit. The caller has the lock, and calls ring or pass afterwards.
func (s *stream) admitted(ctx context.Context) error {
	if s.ended == nil && !s.closing && !s.out.full() && len(s.waiters) == 0 {
		return nil
	}
	return s.wait(ctx)
}

func (s *stream) wait(ctx context.Context) error {
	if ctx == nil && s.usable() == nil {
		return s.noCredit()
	}
	for first := true; ; first = false {
		if err := s.usable(); err != nil {
			return err
		}
		if !s.out.full() && (!first || len(s.waiters) == 0) {
			return nil
		}
		if first {
			s.blocked++
		}
		turn := make(chan struct{}, 1)
		s.queue(turn, first)
		s.mu.Unlock()
		select {
		case <-turn:
			s.mu.Lock()
		case <-ctx.Done():
			s.mu.Lock()
			s.leave(turn)
			return s.tooLate(ctx)
		}
	}
}

// usable returns an error if the stream takes no messages.
func (s *stream) usable() error {
	if s.ended != nil {
		return fault(mainstem.KindClosed, "send to "+s.p.name, s.ended)
	}
	if s.closing {
		return fault(mainstem.KindClosed, "send to "+s.p.name, ErrClosed)
	}
	return nil
}

// queue puts a waiter at the end of the queue, or at its front if it had its turn already.
func (s *stream) queue(turn chan struct{}, last bool) {
	s.waiters = append(s.waiters, turn)
	if !last {
		copy(s.waiters[1:], s.waiters)
		s.waiters[0] = turn
	}
}

// leave takes a waiter out of the queue; if it has had its turn, the next one has it.
func (s *stream) leave(turn chan struct{}) {
	for i, w := range s.waiters {
		if w == turn {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			return
		}
	}
	s.pass()
}

// pass lets the first waiter go on if there is credit.
func (s *stream) pass() {
	if len(s.waiters) > 0 && (!s.out.full() || s.ended != nil || s.closing) {
		s.waiters[0] <- struct{}{}
		s.waiters[0] = nil
		s.waiters = s.waiters[1:]
	}
}

// release lets all waiters go, when none of them can succeed any more.
func (s *stream) release() {
	for len(s.waiters) > 0 {
		s.pass()
	}
}

// ring wakes the writer after something was appended, and the next waiter.
func (s *stream) ring() {
	if c := s.conn; c != nil && c.asleep {
		c.asleep = false
		c.work.Signal()
	}
	if len(s.waiters) > 0 {
		s.pass()
	}
}

func (s *stream) noCredit() error {
	return fault(mainstem.KindUnavailable, "send to "+s.p.name, ErrWindow)
}

func (s *stream) tooLate(ctx context.Context) error {
	e := mainstem.Ended(ctx, "send to "+s.p.name, time.Time{}, "room in the window")
	e.Err = fmt.Errorf("%w: %w", e.Err, ErrWindow)
	return e
}

// released is called with the lock when frames may have been acknowledged or forgotten.
func (s *stream) released() {
	s.pass()
	if s.drained != nil && s.out.empty() {
		close(s.drained)
		s.drained = nil
	}
}

// acknowledged notes what the peer has handled.
func (s *stream) acknowledged(n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.out.ack(n)
	s.released()
	return err
}

// stopAdmission lets nothing new be taken.
func (s *stream) stopAdmission() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.release()
}

// sayBye makes a farewell the last that the connection writes, if there is one.
func (s *stream) sayBye() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conn
	if c != nil {
		c.bye = &frame.Farewell{}
		time.AfterFunc(farewell/2, c.sayByeNow)
		s.ring()
	}
	return c
}

// sayByeNow makes a farewell wait no longer for a message that is being handled.
func (c *conn) sayByeNow() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.byeNow = true
	c.s.ring()
}

// drain waits until everything is acknowledged.
func (s *stream) drain(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.out.empty() || s.ended != nil {
			defer s.mu.Unlock()
			return s.undelivered()
		}
		if s.drained == nil {
			s.drained = make(chan struct{})
		}
		drained := s.drained
		s.mu.Unlock()
		select {
		case <-drained:
		case <-s.p.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// expire ends the session because the stream had no connection for too long. A connection
// that came when the timer had fired, and before this, still counts.
func (s *stream) expire() {
	if !s.connected() {
		s.p.end(ErrLost)
	}
}

// connected reports whether a connection carries the stream now.
func (s *stream) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil
}

// attached returns when the stream got its last connection.
func (s *stream) attached() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began
}

// stop ends the stream: nothing is taken or carried any more.
func (s *stream) stop(reason error) {
	s.mu.Lock()
	s.ended = reason
	s.release()
	s.giveUp.Stop()
	c := s.conn
	s.mu.Unlock()
	if c != nil {
		c.fail(reason)
	}
}

// undelivered returns why something was not delivered, if that is so.
func (s *stream) undelivered() error {
	if s.left || !s.out.empty() {
		return s.ended
	}
	return nil
}

// leftovers calls f with what was not acknowledged when the stream had ended.
func (s *stream) leftovers(f func(body []byte)) {
	s.mu.Lock()
	out := s.out
	s.out = newOutbox(out.window, out.max)
	s.left = !out.empty()
	s.mu.Unlock()
	out.leftovers(f)
}

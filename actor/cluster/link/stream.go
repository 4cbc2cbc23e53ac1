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

// stream is one of the ordered sequences of messages of a session, one in each direction. Lanes are
// divided among the streams of a session. One connection at a time carries a stream; when it fails,
// the stream waits for the next one, and the session ends if there is none for Options.Resume.
//
// Receiving: taken and handled count the numbered frames of the peer. The reader sets taken before
// it gives the messages of a frame to the handler, and handled after that. A new connection asks for
// the frames after taken, so that no message is given twice; acknowledgements carry handled, so that
// a frame counts against the peer's window until its messages have been handled.
//
// Sending: a message is admitted when the outbox is not full. If it is, or others wait already, Send
// waits in waiters, first in, first out. A released waiter is removed from the queue, takes the lock
// and looks again. If another sender was faster and the outbox is full again, it queues at the
// front. Each sender that was admitted, failed or gave up wakes the next waiter (ring, pass), so an
// acknowledgement needs to wake only one.
//
// Invariant: when there is credit and waiters is not empty, a waiter has been released that has not
// had the lock yet, or the goroutine that has the lock calls pass before it unlocks.
//
// Lock order: join before mu. The endpoint's lock is never held together with either.
type stream struct {
	p     *Peer
	index uint16 // in p.streams

	// taken is the number of the last numbered frame that was received; handled that of the last
	// whose messages the handler has returned from. handled <= taken. Only the reader changes them.
	taken, handled atomic.Uint64
	parted         atomic.Bool   // the peer's farewell has come over it
	handledBytes   atomic.Uint64 // payload bytes, decompressed, of the numbered frames up to handled
	takenMessages  atomic.Uint64 // given to the handler
	takenBytes     atomic.Uint64 // of all frames, with headers

	parts parts // only the reader uses it

	ackAfter uint64 // handled bytes after which an acknowledgement is sent without delay

	large chan struct{} // of capacity 1: held by the Send whose message goes out in parts
	lost  chan struct{} // of capacity 1: signals keep that the stream has no connection
	join  sync.Mutex    // serializes attach

	mu      sync.Mutex // guards the fields below
	out     outbox
	conn    *conn           // carries the stream; nil: none does
	past    *conn           // the last one attached; its goroutines may be running still
	ended   error           // why the session has ended, else nil
	left    bool            // there were leftovers when it ended
	closing bool            // Close was called: Send fails
	waiters []chan struct{} // Sends without credit, each with a channel of capacity 1
	drained chan struct{}   // closed when out is empty; nil if nobody waits for that
	began   time.Time       // when past was attached
	lostAt  time.Time       // when a connection failed last; zero until then
	giveUp  *time.Timer     // ends the session; it runs while conn is nil

	blocked    uint64 // Sends that waited for credit
	sentBytes  uint64 // on the wire, without TLS
	sentFrames uint64 // data frames
	reconnects uint64 // connections after the first
}

func newStream(p *Peer, index uint16, window int) *stream {
	s := &stream{p: p, index: index, ackAfter: uint64(min(ackBytes, window/8)), out: newOutbox(window, p.maxMessage), large: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
	s.giveUp = time.AfterFunc(math.MaxInt64, s.expire) // launch sets its time
	return s
}

// send accepts a message; see [Peer.Send].
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

// sendPart waits for credit and copies a body into the outbox: a message, or a part of one. With
// the last part of a message, whole is all of it, and the outbox keeps it.
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

// sendLarge sends a message in numbered parts. A stream sends one such message at a time, so that
// the receiver has one to assemble; other messages may go between the parts. If Send fails after the
// first part, the receiver gets a void part and drops the others.
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

// holdLarge waits until no other message of the stream is being sent in parts.
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

// void makes the receiver drop the parts that have been sent. It does not wait for credit.
func (s *stream) void(lane uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.out.place(frame.Part|frame.Void, lane, nil, true)
		s.ring()
	}
}

// admitted waits for credit. The caller has the lock, which is released during the wait. After nil
// it must call ring or pass before it unlocks. A nil ctx does not wait.
func (s *stream) admitted(ctx context.Context) error {
	if s.ended == nil && !s.closing && !s.out.full() && len(s.waiters) == 0 {
		return nil
	}
	return s.wait(ctx)
}

// wait is admitted for a stream that is full, has waiters, or accepts no messages.
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

// usable returns a Closed error if the stream accepts no more messages.
func (s *stream) usable() error {
	if s.ended != nil {
		return fault(mainstem.KindClosed, "send to "+s.p.name, s.ended)
	}
	if s.closing {
		return fault(mainstem.KindClosed, "send to "+s.p.name, ErrClosed)
	}
	return nil
}

// queue puts a waiter at the end of the queue, or, if last is false, at the front.
func (s *stream) queue(turn chan struct{}, last bool) {
	s.waiters = append(s.waiters, turn)
	if !last {
		copy(s.waiters[1:], s.waiters)
		s.waiters[0] = turn
	}
}

// leave removes a waiter from the queue. If it is not there, it was released meanwhile, and leave
// releases the next one instead.
func (s *stream) leave(turn chan struct{}) {
	for i, w := range s.waiters {
		if w == turn {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			return
		}
	}
	s.pass()
}

// pass releases the first waiter if there is credit, or if it must see the end of the stream.
func (s *stream) pass() {
	if len(s.waiters) > 0 && (!s.out.full() || s.ended != nil || s.closing) {
		s.waiters[0] <- struct{}{}
		s.waiters[0] = nil
		s.waiters = s.waiters[1:]
	}
}

// release releases all waiters, when ended or closing is set.
func (s *stream) release() {
	for len(s.waiters) > 0 {
		s.pass()
	}
}

// ring wakes the writer, which has something to write, and releases the next waiter if there is
// credit.
func (s *stream) ring() {
	if c := s.conn; c != nil && c.asleep {
		c.asleep = false
		c.work.Signal()
	}
	if len(s.waiters) > 0 {
		s.pass()
	}
}

// noCredit is the error of a Send that does not wait.
func (s *stream) noCredit() error {
	return fault(mainstem.KindUnavailable, "send to "+s.p.name, ErrWindow)
}

// tooLate is the error of a Send whose ctx ended while it waited.
func (s *stream) tooLate(ctx context.Context) error {
	e := mainstem.Ended(ctx, "send to "+s.p.name, time.Time{}, "room in the window")
	e.Err = fmt.Errorf("%w: %w", e.Err, ErrWindow)
	return e
}

// released is called with the lock when frames may have left the outbox or its window.
func (s *stream) released() {
	s.pass()
	if s.drained != nil && s.out.empty() {
		close(s.drained)
		s.drained = nil
	}
}

// acknowledged is called when the peer has handled the numbered frames up to n.
func (s *stream) acknowledged(n uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.out.ack(n)
	s.released()
	return err
}

// stopAdmission makes every Send fail from now on, also those that wait.
func (s *stream) stopAdmission() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.release()
}

// sayBye makes the connection write a farewell as its last frame, and returns the connection, nil if
// there is none. The farewell waits until received frames are handled, to acknowledge them, but for
// at most half of the farewell time.
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

// sayByeNow makes the writer send the farewell although a message is still being handled.
func (c *conn) sayByeNow() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.byeNow = true
	c.s.ring()
}

// drain waits until the outbox is empty or the stream has ended, as long as ctx allows. It returns
// nil if all messages were delivered.
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

// expire ends the session because the stream had no connection for Options.Resume. If one was
// attached after the timer had fired, expire does nothing.
func (s *stream) expire() {
	if !s.connected() {
		s.p.end(ErrLost)
	}
}

// connected reports whether a connection carries the stream.
func (s *stream) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil
}

// attached returns the time when the last connection was attached, zero if none was.
func (s *stream) attached() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began
}

// stop ends the stream: Sends fail with reason, the connection is closed, no other is attached.
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

// undelivered returns the end's reason if messages were left undelivered, else nil. The caller has
// the lock.
func (s *stream) undelivered() error {
	if s.left || !s.out.empty() {
		return s.ended
	}
	return nil
}

// leftovers calls f with each undelivered message. The stream must have ended and its connection's
// goroutines too.
func (s *stream) leftovers(f func(body []byte)) {
	s.mu.Lock()
	out := s.out
	s.out = newOutbox(out.window, out.max)
	s.left = !out.empty()
	s.mu.Unlock()
	out.leftovers(f)
}

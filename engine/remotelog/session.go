package remotelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	wire "github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// How many bytes of answers a session takes that nobody has asked for yet. A call's window
// is what a small answer may have to wait for behind a large one.
const (
	callWindow    = 128 << 10
	sessionWindow = 32 << 20
)

// Causes of failed calls.
var (
	errGoingAway = errors.New("the server takes no more calls of this session")
	errNotBegun  = errors.New("the session has ended")
	errNoAnswer  = errors.New("the connection was lost before the answer came")
)

// session is a connection to the server that carries many calls at a time. A caller writes
// its request itself, and reads its answer, or the first message of a stream, or waits for the
// goroutine that reads.
type session struct {
	conn    *wire.Conn
	in      *wire.Reader // of who has the turn
	turn    turn
	key     wire.Key       // of what the server remembers of the client's commits
	keyed   bool           // it does
	numbers *atomic.Uint64 // of calls: the Log's, so that a call has the same in any session
	mu      struct {
		sync.Mutex
		calls map[uint64]*sessionCall
		busy  int   // of these, with one answer
		held  int64 // bytes of answers for which there was no credit
		back  int64 // of these, bytes taken
		err   error // why no call can begin; nil: they can
	}
}

// sessionCall is one call. A call of one answer is used again by others.
type sessionCall struct {
	number uint64
	again  bool // a session before carried it
	among  int  // calls with one answer that were under way when it began
	stream bool
	flow   wire.Flow     // of the request
	wake   chan struct{} // gets an element when a call with one answer has ended, or a stream has something new
	stop   func()        // ends the sending of a large request; nil: it is not being sent

	// The fields of the session's lock. When a call with one answer has ended they are the
	// caller's.

	parts   wire.Parts
	partial int64    // bytes of the message that is coming, for which there is no credit yet
	queue   []answer // messages of a stream
	held    int64    // bytes of answers for which there was no credit
	back    int64    // of these, bytes taken
	gone    bool     // the caller does not wait any more
	ended   bool     // nothing follows
	body    []byte   // the one answer
	failure *mainstem.Error
	lost    error // the connection ended first
}

// answer is one message of a stream.
type answer struct {
	body []byte
	cost int64 // bytes for which there is no credit yet
}

var calls = sync.Pool{New: func() any { return &sessionCall{wake: make(chan struct{}, 1)} }}

// newSession returns a session on an upgraded connection, when the server has said hello. The
// key is that of the session before, zero if there was none.
func newSession(conn *wire.Conn, key wire.Key, numbers *atomic.Uint64) (*session, error) {
	s := &session{conn: conn, in: conn.NewReader(nil), numbers: numbers}
	s.turn.start(s.tick)
	s.mu.calls = map[uint64]*sessionCall{}
	conn.Post(wire.AppendHello(nil, wire.Hello{
		Version: wire.Version, Windows: wire.Windows{Call: callWindow, Session: sessionWindow}, Keyed: true, Key: key,
	}))
	h, p, err := s.in.Next()
	if err != nil {
		return nil, err
	}
	if h.Type != wire.TypeHello {
		return nil, wire.Violation("the first frame has the type %d", h.Type)
	}
	hello, err := wire.ParseHello(p)
	if err != nil {
		return nil, err
	}
	s.key, s.keyed = hello.Key, hello.Keyed
	conn.SetWindows(hello.Windows)
	return s, conn.NetConn().SetDeadline(time.Time{})
}

// usable reports whether calls can begin.
func (s *session) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err == nil
}

// end fails all calls.
func (s *session) end(cause error) {
	s.conn.Close(cause)
	s.conn.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.err = cause
	for n, c := range s.mu.calls {
		c.lost = cause
		s.finishLocked(n, c)
	}
}

// take does what a frame says.
func (s *session) take(h wire.Header, p []byte) error {
	switch h.Type {
	case wire.TypeData:
		return s.data(h, p)
	case wire.TypeError:
		e, err := message.ParseError(p)
		if err != nil {
			return wire.Violation("an error cannot be read: %v", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if c := s.mu.calls[h.Call]; c != nil {
			c.failure = e
			s.finishLocked(h.Call, c)
		}
		return nil
	case wire.TypeCredit:
		n, err := wire.ParseCredit(p)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if c := s.mu.calls[h.Call]; c != nil {
			s.conn.Credit(&c.flow, n)
		}
		return nil
	case wire.TypeGoAway:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.err = errGoingAway
		s.leaveLocked()
		return nil
	}
	return wire.Violation("a server sent a frame of type %d", h.Type)
}

// data takes a piece of an answer.
func (s *session) data(h wire.Header, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mu.calls[h.Call]
	if c == nil {
		return wire.Violation("an answer is of call %d, which has ended", h.Call)
	}
	if h.Flags == wire.End {
		s.finishLocked(h.Call, c)
		return nil
	}
	whole, cost, err := c.parts.Add(h.Flags, p)
	if err != nil {
		return err
	}
	s.holdLocked(int64(cost))
	c.partial += int64(cost)
	if c.held += int64(cost); c.gone {
		s.creditLocked(nil, c.partial)
		c.partial = 0
	} else if c.held > callWindow {
		return wire.Violation("call %d sends more than its credit", h.Call)
	}
	switch {
	case whole && !c.gone && c.stream:
		c.queue = append(c.queue, answer{c.parts.Body, c.partial})
		c.partial = 0
		wake.Signal(c.wake)
	case whole && !c.gone:
		c.body = c.parts.Body
		s.creditLocked(nil, c.partial)
	case !whole && len(c.queue) == 0: // the caller waits for the rest
		s.creditLocked(c, c.partial)
		c.partial = 0
	}
	if whole && h.Flags&wire.End != 0 {
		s.finishLocked(h.Call, c)
	}
	return nil
}

// holdLocked notes that n bytes came. When they become many, every call gives the credit
// that it has kept back: the server sends for a call without the session's credit, but only
// if nothing of it is outstanding.
func (s *session) holdLocked(n int64) {
	was := s.tightLocked()
	if s.mu.held += n; !was && s.tightLocked() {
		for _, c := range s.mu.calls {
			s.creditLocked(c, 0)
		}
	}
}

// tightLocked reports whether receivers that are slow have much of the session's window.
func (s *session) tightLocked() bool { return s.mu.held > sessionWindow/2 }

// creditLocked notes that n bytes were taken, of a call unless that is nil, and gives credit
// for them: at once if the session's is scarce, else now and then. The frames are only queued.
func (s *session) creditLocked(c *sessionCall, n int64) {
	tight := s.tightLocked()
	if s.mu.back += n; s.mu.back >= sessionWindow/4 || tight && s.mu.back > 0 {
		s.conn.Queue(wire.AppendCredit(nil, 0, int(s.mu.back)))
		s.mu.held -= s.mu.back
		s.mu.back = 0
	}
	if c == nil || c.ended || c.gone {
		return
	}
	if c.back += n; c.back >= callWindow/4 || tight && c.back > 0 {
		s.conn.Queue(wire.AppendCredit(nil, c.number, int(c.back)))
		c.held -= c.back
		c.back = 0
	}
}

// finishLocked ends a call.
func (s *session) finishLocked(number uint64, c *sessionCall) {
	delete(s.mu.calls, number)
	if !c.stream {
		s.mu.busy--
	}
	c.ended = true
	s.turn.idle = len(s.mu.calls) == 0
	if c.stop != nil {
		c.stop()
	}
	wake.Signal(c.wake)
	s.leaveLocked()
}

// leaveLocked closes a connection that no call needs and that none may begin on.
func (s *session) leaveLocked() {
	if errors.Is(s.mu.err, errGoingAway) && len(s.mu.calls) == 0 {
		s.conn.Close(errGoingAway)
	}
}

// begin starts a call, with a number of its own or that which it had in a session before. Its
// request must then be sent.
func (s *session) begin(c *sessionCall, number uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err != nil {
		return fmt.Errorf("%w: %w", errNotBegun, s.mu.err)
	}
	c.again = number > 0
	if !c.again {
		number = s.numbers.Add(1)
	}
	c.number = number
	s.mu.calls[c.number] = c
	if !c.stream {
		s.mu.busy++
	}
	c.among = s.mu.busy
	return nil
}

// forget ends the wait for a call. It returns false if the call has ended meanwhile.
func (s *session) forget(c *sessionCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.ended {
		return false
	}
	c.gone = true
	back := c.partial
	for _, a := range c.queue {
		back += a.cost
	}
	c.queue, c.partial = nil, 0
	s.creditLocked(nil, back)
	s.conn.Post(wire.AppendFrame(nil, wire.TypeCancel, 0, c.number))
	return true
}

// requests are memory for requests.
var requests = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// callSpace is what is left in front of a request for the head of its frame.
const callSpace = wire.HeaderSize + wire.CallSize

// newRequest returns a buffer for a request, which is to be appended.
func newRequest() *[]byte {
	p := requests.Get().(*[]byte)
	*p = append((*p)[:0], make([]byte, callSpace)...)
	return p
}

func putRequest(p *[]byte) {
	if cap(*p) <= callWindow {
		requests.Put(p)
	}
}

// send sends the request of a call that has begun: b, as newRequest has begun it.
func (s *session) send(ctx context.Context, m wire.Method, c *sessionCall, b []byte) error {
	head := wire.Call{Method: m, Again: c.again, Size: uint32(len(b) - callSpace)} //nolint:gosec // the server's limit is below
	if at, limited := ctx.Deadline(); limited {
		head.Timeout = uint64(max(time.Until(at)/time.Microsecond, 1)) //nolint:gosec // positive
	}
	if head.Size <= wire.SmallMessage {
		wire.AppendCall(wire.BeginFrame(b[:0], wire.TypeCall, wire.First|wire.Last|wire.End, c.number), head)
		s.conn.PostAmong(c.among, wire.SealFrame(b, 0))
		return nil
	}
	s.wakeReader() // for the credit
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	c.stop = cancel
	ended := c.ended
	s.mu.Unlock()
	if ended {
		return nil
	}
	_, err := s.conn.Send(ctx, wire.TypeCall, wire.End, c.number, wire.AppendCall(nil, head), b[callSpace:], &c.flow)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.stop = nil
	if c.ended {
		return nil // the answer says why
	}
	return err
}

// one makes a call with one answer, or makes it again. It notes in t that the server can have
// seen it. The error is the server's, or that of the session or of a context.
func (s *session) one(ctx, killed context.Context, m wire.Method, request []byte, t *try) (body []byte, err error) {
	c := calls.Get().(*sessionCall)
	if err := s.begin(c, t.lost.number); err != nil {
		calls.Put(c)
		return nil, err
	}
	t.number = c.number
	t.connected.Store(true)
	err = s.send(ctx, m, c, request)
	if err == nil {
		s.readFor(c)
		select {
		case <-c.wake:
		case <-ctx.Done():
			err = ctx.Err()
		case <-killed.Done():
			err = errClosed
		}
	}
	if err != nil {
		if s.forget(c) {
			return nil, err
		}
		<-c.wake
	}
	body, failure, lost := c.body, c.failure, c.lost
	*c = sessionCall{wake: c.wake}
	calls.Put(c)
	switch {
	case failure != nil:
		return nil, failure
	case lost != nil:
		return nil, lost
	}
	return body, nil
}

// sessionStream are the messages of one call.
type sessionStream struct {
	s     *session
	c     *sessionCall
	ctx   context.Context
	taken int64 // bytes of the message received last, for which there is no credit yet
	err   error
}

// open starts a call with a stream of answers.
func (s *session) open(ctx context.Context, m wire.Method, request []byte, sent *atomic.Bool) (*sessionStream, error) {
	c := &sessionCall{wake: make(chan struct{}, 1), stream: true}
	if err := s.begin(c, 0); err != nil {
		return nil, err
	}
	sent.Store(true)
	if err := s.send(ctx, m, c, request); err != nil {
		s.forget(c)
		return nil, err
	}
	return &sessionStream{s: s, c: c, ctx: ctx}, nil
}

// receive returns the next message, false at the end.
func (t *sessionStream) receive() ([]byte, bool) {
	for {
		body, there, ended := t.next()
		if there {
			return body, true
		}
		if ended {
			return nil, false
		}
		t.s.readFor(t.c)
		select {
		case <-t.c.wake:
		case <-t.ctx.Done():
			t.err = t.ctx.Err()
			return nil, false
		}
	}
}

// next takes a message out of the queue, and gives credit for the one before.
func (t *sessionStream) next() (body []byte, there, ended bool) {
	s, c := t.s, t.c
	s.mu.Lock()
	defer s.mu.Unlock()
	credit := t.taken
	t.taken = 0
	if len(c.queue) > 0 {
		a := c.queue[0]
		c.queue[0] = answer{}
		if c.queue = c.queue[1:]; len(c.queue) == 0 {
			c.queue = nil
		}
		body, t.taken, there = a.body, a.cost, true
	}
	if len(c.queue) == 0 && !there {
		credit += c.partial // it is what is waited for
		c.partial = 0
	}
	if credit > 0 {
		s.creditLocked(c, credit)
		s.conn.Flush()
	}
	if !there && c.ended {
		if c.failure != nil {
			t.err = c.failure
		} else if c.lost != nil {
			t.err = c.lost
		}
		return nil, false, true
	}
	return body, there, false
}

// close ends the call, if it has not ended.
func (t *sessionStream) close() {
	s := t.s
	s.mu.Lock()
	s.creditLocked(nil, t.taken)
	t.taken = 0
	s.mu.Unlock()
	if !s.forget(t.c) {
		s.conn.Flush()
	}
}

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

// How many bytes of answers the server may send before they are read. A small answer may have to
// wait for up to the window of a call of data of a large one.
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

// session is a connection to the server that carries many calls at a time. A caller writes its
// request itself. For its answer, or the first message of a stream, it reads from the connection
// itself, or waits for the goroutine that reads; see turn.
type session struct {
	conn    *wire.Conn
	in      *wire.Reader // of the holder of the turn
	turn    turn
	key     wire.Key       // identifies the recorded commits of this client at the server
	keyed   bool           // the server records commits
	numbers *atomic.Uint64 // of calls; shared by the sessions of the Log, so that a call has the same number in any of them
	mu      struct {
		sync.Mutex
		calls map[uint64]*sessionCall
		busy  int   // number of calls with one answer
		held  int64 // bytes of answers for which no credit was sent yet
		back  int64 // those of held that were read by callers
		err   error // why no call can begin; nil: calls can begin
	}
}

// sessionCall is one call. Calls with one answer are reused.
type sessionCall struct {
	number uint64
	again  bool // an earlier session has sent it
	among  int  // number of running calls with one answer when it began
	stream bool
	flow   wire.Flow     // of the request
	wake   chan struct{} // gets an element when a call with one answer has ended, or when a stream has a message or has ended
	stop   func()        // ends the sending of a large request; nil: none is being sent

	// Fields under the lock of the session. After a call with one answer has ended, they belong
	// to the caller.

	parts   wire.Parts
	partial int64    // bytes of the incomplete message, for which no credit was sent yet
	queue   []answer // messages of a stream
	held    int64    // bytes of answers for which no credit was sent yet
	back    int64    // those of held that were read by the caller
	gone    bool     // the caller does not wait any more
	ended   bool     // no further frames will come
	body    []byte   // the one answer
	failure *mainstem.Error
	lost    error // the connection ended first
}

// answer is one message of a stream.
type answer struct {
	body []byte
	cost int64 // bytes for which no credit was sent yet
}

var calls = sync.Pool{New: func() any { return &sessionCall{wake: make(chan struct{}, 1)} }}

// newSession returns a session on an upgraded connection, after it has received the hello of the
// server. key is that of the session before, or zero if there was none.
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

// end closes the connection and fails all calls.
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

// take handles a frame.
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

// data handles a piece of an answer.
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

// holdLocked adds n received bytes to those without credit. If they become many, every call sends
// the credit that it has kept back: the server may send for a call without credit of the session,
// but only if no byte of the call is outstanding.
func (s *session) holdLocked(n int64) {
	was := s.tightLocked()
	if s.mu.held += n; !was && s.tightLocked() {
		for _, c := range s.mu.calls {
			s.creditLocked(c, 0)
		}
	}
}

// tightLocked reports whether slow callers hold more than half of the window of the session.
func (s *session) tightLocked() bool { return s.mu.held > sessionWindow/2 }

// creditLocked records that n bytes were read, by the call c unless it is nil, and sends credit
// for them: at once if tightLocked, otherwise from time to time. The frames are only queued.
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

// leaveLocked closes the connection if no call is running and none may begin.
func (s *session) leaveLocked() {
	if errors.Is(s.mu.err, errGoingAway) && len(s.mu.calls) == 0 {
		s.conn.Close(errGoingAway)
	}
}

// begin begins a call, with a new number or, unless number is 0, with the number that it had in
// an earlier session. The caller must then send its request.
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

// forget stops waiting for a call. It returns false if the call has ended meanwhile.
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

// requests has buffers for requests.
var requests = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// callSpace is the number of bytes before a request that are reserved for the header of its
// frame.
const callSpace = wire.HeaderSize + wire.CallSize

// newRequest returns a buffer to which the caller must append a request.
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

// send sends the request of a call that has begun. b is a buffer of newRequest with the request.
func (s *session) send(ctx context.Context, m wire.Method, c *sessionCall, b []byte) error {
	head := wire.Call{Method: m, Again: c.again, Size: uint32(len(b) - callSpace)} //nolint:gosec // the limit of the server is lower
	if at, limited := ctx.Deadline(); limited {
		head.Timeout = uint64(max(time.Until(at)/time.Microsecond, 1)) //nolint:gosec // positive
	}
	if head.Size <= wire.SmallMessage {
		wire.AppendCall(wire.BeginFrame(b[:0], wire.TypeCall, wire.First|wire.Last|wire.End, c.number), head)
		s.conn.PostAmong(c.among, wire.SealFrame(b, 0))
		return nil
	}
	s.wakeReader() // to receive credit
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
		return nil // the answer has the reason
	}
	return err
}

// one makes a call with one answer, or makes it again. It records in t that the server may have
// seen the call. The error is that of the server, of the session, or of a context.
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

// sessionStream has the messages of one call.
type sessionStream struct {
	s     *session
	c     *sessionCall
	ctx   context.Context
	taken int64 // bytes of the last message, for which no credit was sent yet
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

// receive returns the next message, or false at the end.
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

// next removes a message from the queue, and sends credit for the one before.
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
		credit += c.partial // the caller waits for the rest of this message
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

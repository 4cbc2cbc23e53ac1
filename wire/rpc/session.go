package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem/internal/budget"
	wire "github.com/mainstemdev/mainstem/internal/session"
)

// SessionPath is where a [Handler] takes sessions, the fast protocol of package remotelog:
// route it to the handler beside the path that [NewHandler] returns. A client of a server
// that does not falls back to Connect.
const SessionPath = wire.Path

// What a session may take.
const (
	// sessionMemory is reserved for each session: the buffers of reading and writing,
	// requests that wait for memory of their own, and the one that the reader serves itself.
	// And what is remembered of its commits.
	sessionMemory = 768 << 10

	callWindow    = 64 << 10  // of a request, before its memory is reserved
	sessionWindow = 128 << 10 // of all requests whose memory is not reserved
	maxCalls      = 4096      // at a time, of a session
	maxWaiting    = 16        // small requests of a session that wait for memory
)

// Causes of the end of calls.
var (
	errGone    = errors.New("the client is gone")
	errStalled = errors.New("the client took nothing of the answer for too long")
	errRecall  = errors.New("the client took nothing of the answer while others waited for memory")
	errToken   = errors.New("the token of the session is not valid any more")
)

// session is one client's connection.
//
// One goroutine reads, and serves the calls that are quick itself, so that such a call
// costs no hand-off: it reads the request, asks the log and queues the answer, which goes
// out when nothing more is there to read. A call may be slow for all that: the disk, or
// memory that others have. So while one is being served the session's timer runs. If it
// finds the same call twice, its goroutine becomes the reader, and the one before only
// ends its call. The turn decides between the two: both try to set it to 0, and the one
// that does reads on.
//
// Every other call has a goroutine of its own. The session ends, and gives its memory
// back, when the reader and all calls have ended.
type session struct {
	h    *Handler
	conn *wire.Conn
	hold *budget.Hold  // sessionMemory
	over chan struct{} // closed when the reader and all calls have ended
	goOn func()        // read, by which the table of methods would refer to itself

	outcomes *outcomes // set before the first call; nil: the client does not ask for lost answers

	// The fields of the goroutine that reads.

	in      *wire.Reader
	turns   uint64       // calls that a reader served itself
	serving *sessionCall // the last of them

	turn     atomic.Uint64 // the number in turns of the call being served by the reader, 0: none is
	watched  atomic.Bool   // the timer runs
	timer    *time.Timer   // of watch
	seen     uint64        // the timer's own: turn when it ran last
	refusing atomic.Bool   // mu.draining is set
	active   atomic.Int64  // calls with one answer that have goroutines of their own

	mu struct {
		sync.Mutex
		calls    map[uint64]*sessionCall
		token    [sha256.Size]byte // of the client, if there is one
		next     [sha256.Size]byte // that it has presented since; zero: none
		left     int64             // bytes of requests that may still come; ≥ 0
		back     int64             // bytes taken since the client was given credit
		waiting  int               // small requests that wait for memory
		users    int               // the reader and the calls with goroutines
		draining error             // why no call is taken; nil: they are
	}
}

// serveSession answers a request for a session.
func (h *Handler) serveSession(w http.ResponseWriter, r *http.Request) {
	if !upgrades(r) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", wire.Protocol)
		http.Error(w, "want an upgrade of HTTP/1.1 to "+wire.Protocol, http.StatusUpgradeRequired)
		return
	}
	hold := h.memory.sessions.Hold()
	if !hold.Try(sessionMemory) {
		h.forgetLost()
	}
	if h.stopping.Err() != nil || hold.Size() == 0 && !hold.Try(sessionMemory) {
		hold.Release()
		http.Error(w, "the server is stopping, or has no memory for another session", http.StatusServiceUnavailable)
		return
	}
	conn, buffers, err := http.NewResponseController(w).Hijack()
	if err != nil {
		hold.Release()
		http.Error(w, "the connection cannot be upgraded", http.StatusNotImplemented)
		return
	}
	_ = conn.SetDeadline(time.Now().Add(headerTimeout)) // it fails when the connection does
	s := &session{h: h, hold: hold.Move(), over: make(chan struct{})}
	s.goOn = s.read
	s.conn = wire.New(conn, wire.Windows{Call: wire.SmallMessage, Session: wire.SmallMessage}, &wire.Options{KeepAlive: h.o.KeepAlive})
	came, _ := buffers.Peek(buffers.Reader.Buffered()) // it is all there
	s.in = s.conn.NewReader(came)
	s.timer = time.AfterFunc(time.Hour, s.watch)
	s.timer.Stop()
	s.mu.calls = map[uint64]*sessionCall{}
	s.mu.left, s.mu.users, s.mu.token = sessionWindow, 1, tokenSum(r)
	if !h.beginSession(s) {
		s.end(errStopping)
		return
	}
	s.conn.Queue([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + wire.Protocol + "\r\n\r\n"))
	go s.begin()
}

// upgrades reports whether a request asks for a session.
func upgrades(r *http.Request) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 &&
		hasToken(r.Header["Connection"], "upgrade") && hasToken(r.Header["Upgrade"], wire.Protocol)
}

func hasToken(values []string, want string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), want) {
				return true
			}
		}
	}
	return false
}

// begin exchanges the first frames, and reads.
func (s *session) begin() {
	if err := s.greet(); err != nil {
		s.end(err)
		return
	}
	s.h.checkSession(s) // the token may have changed since it was looked at
	s.read()
}

func (s *session) greet() error {
	h, p, err := s.in.Next()
	if err != nil {
		return err
	}
	if h.Type != wire.TypeHello {
		return wire.Violation("the first frame has the type %d", h.Type)
	}
	hello, err := wire.ParseHello(p)
	if err != nil {
		return err
	}
	s.conn.SetWindows(hello.Windows)
	answer := wire.Hello{Version: wire.Version, Windows: wire.Windows{Call: callWindow, Session: sessionWindow}, Calls: maxCalls}
	if hello.Keyed {
		s.outcomes = s.h.resume(hello.Key, s)
		answer.Keyed, answer.Key = true, s.outcomes.key
	}
	s.conn.Post(wire.AppendHello(nil, answer))
	return s.conn.NetConn().SetDeadline(time.Time{})
}

// read reads frames until the session ends, or another goroutine has become the reader.
func (s *session) read() {
	for {
		h, p, err := s.in.Next()
		reads := true
		if err == nil {
			reads, err = s.take(h, p)
		}
		if !reads {
			return
		}
		if err != nil {
			s.end(err)
			return
		}
	}
}

// take does what a frame says. It returns false if another goroutine reads now.
func (s *session) take(h wire.Header, p []byte) (reads bool, err error) {
	switch h.Type {
	case wire.TypeCall:
		return s.call(h, p)
	case wire.TypeData:
		return true, s.piece(h, p)
	case wire.TypeCancel:
		s.mu.Lock()
		defer s.mu.Unlock()
		if c := s.mu.calls[h.Call]; c != nil {
			s.cancelLocked(c, context.Canceled)
		}
		return true, nil
	case wire.TypeCredit:
		n, err := wire.ParseCredit(p)
		if c := s.find(h.Call); c != nil && err == nil {
			s.conn.Credit(&c.flow, n)
		}
		return true, err
	case wire.TypeToken:
		s.renew(p)
		return true, nil
	}
	return true, wire.Violation("a client sent a frame of type %d", h.Type)
}

func (s *session) find(number uint64) *sessionCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.calls[number]
}

// end ends the session; the reader calls it last.
func (s *session) end(cause error) {
	if errors.Is(cause, wire.ErrProtocol) {
		s.h.o.Logger.Warn("rpc: a session was cut", "client", s.conn.NetConn().RemoteAddr(), "err", cause)
	}
	s.cut(cause)
	s.timer.Stop()
	if s.outcomes != nil {
		s.h.disconnected(s.outcomes)
	}
	s.release()
}

// cut closes the connection and cancels all calls, but those that are spared.
func (s *session) cut(cause error) {
	s.conn.Close(cause)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.draining = cause
	for _, c := range s.mu.calls {
		if !s.spares(c, cause) {
			s.cancelLocked(c, errGone)
		}
	}
}

// cancelLocked ends a call, also one whose request is still coming, which has no goroutine.
func (s *session) cancelLocked(c *sessionCall, cause error) {
	c.cancel(cause)
	if a := &c.arriving; a.ready && a.parts.Open() && !a.over {
		s.dropLocked(c, canceled(cause))
	}
}

// release is called by the reader and by each call with a goroutine of its own, at the end.
func (s *session) release() {
	s.mu.Lock()
	s.mu.users--
	last := s.mu.users == 0
	s.mu.Unlock()
	if last {
		s.conn.Wait()
		s.hold.Release()
		s.h.endSession(s)
		close(s.over)
	}
}

// drain takes no more calls and asks the client to end the session. Calls that are running
// go on, but those of streams if the session's token is the reason.
func (s *session) drain(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.draining != nil {
		return
	}
	s.mu.draining = cause
	s.refusing.Store(true)
	s.conn.Post(wire.AppendFrame(nil, wire.TypeGoAway, 0, 0, []byte(cause.Error())))
}

// renew notes another token of the client, which may not be valid yet.
func (s *session) renew(token []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.next = sha256.Sum256(token)
}

// holds reports whether the client has presented the token with that sum.
func (s *session) holds(sum *[sha256.Size]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return subtle.ConstantTimeCompare(s.mu.token[:], sum[:])|subtle.ConstantTimeCompare(s.mu.next[:], sum[:]) == 1
}

// The sessions of a handler.

func (h *Handler) beginSession(s *session) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.closed {
		return false
	}
	h.mu.sessions[s] = struct{}{}
	h.sessions.opened.Add(1)
	return true
}

func (h *Handler) endSession(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := h.mu.sessions[s]; !there {
		return
	}
	in, out := s.conn.Bytes()
	h.sessions.in.Add(in)
	h.sessions.out.Add(out)
	delete(h.mu.sessions, s)
	if o := s.outcomes; o != nil {
		o.sessions = slices.DeleteFunc(o.sessions, func(other *session) bool { return other == s })
	}
	h.idleLocked()
}

// SetToken changes the token that clients must present; see [Options.Token]. Sessions whose
// clients have not presented it end: at once for new calls, after half a second for those
// that are running.
func (h *Handler) SetToken(token string) {
	h.tokenHash.Store(hashOf(token))
	h.mu.Lock()
	all := slices.Collect(maps.Keys(h.mu.sessions))
	h.mu.Unlock()
	for _, s := range all {
		h.checkSession(s)
	}
}

// tokenGrace is how long the calls of a session may run whose token is not valid any more.
const tokenGrace = 500 * time.Millisecond

// checkSession ends a session whose client has not the handler's token.
func (h *Handler) checkSession(s *session) {
	if sum := h.tokenHash.Load(); sum != nil && !s.holds(sum) {
		s.drain(errToken)
		time.AfterFunc(tokenGrace, func() { s.cut(errToken) })
	}
}

// SessionStats are the sessions of a handler since it was made.
type SessionStats struct {
	Open     int    // now
	Opened   uint64 // since the handler was made
	BytesIn  uint64 // read from clients
	BytesOut uint64 // written to clients

	Calls map[string]uint64 // that began, by the method of the protocol file, "unknown" for others
}

// SessionStats returns the statistics of sessions.
func (h *Handler) SessionStats() SessionStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := SessionStats{
		Open: len(h.mu.sessions), Opened: h.sessions.opened.Load(),
		BytesIn: h.sessions.in.Load(), BytesOut: h.sessions.out.Load(),
	}
	st.Calls = map[string]uint64{}
	for m := range h.sessions.calls {
		if n := h.sessions.calls[m].Load(); n > 0 {
			st.Calls[wire.Method(m).String()] += n //nolint:gosec // an index
		}
	}
	for s := range h.mu.sessions {
		in, out := s.conn.Bytes()
		st.BytesIn += in
		st.BytesOut += out
	}
	return st
}

// sessionCounters are those of sessions that have ended, and of calls.
type sessionCounters struct {
	opened, in, out atomic.Uint64
	calls           [wire.Methods]atomic.Uint64 // by method; 0: methods that are not known
}

func (c *sessionCounters) counter(m wire.Method) *atomic.Uint64 {
	if int(m) >= len(c.calls) {
		m = 0
	}
	return &c.calls[m]
}

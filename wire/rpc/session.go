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

// SessionPath is the path on which a [Handler] accepts sessions, the fast protocol of package
// remotelog. Route it to the handler, in addition to the path that [NewHandler] returns. Without
// it, clients fall back to Connect.
const SessionPath = wire.Path

// Limits of a session.
const (
	// sessionMemory is reserved for each session, in bytes: for the buffers of reading and
	// writing, for requests that wait for their memory, for the request that the reader serves
	// itself, and for the outcomes of its commits.
	sessionMemory = 768 << 10

	callWindow    = 64 << 10  // bytes of a request before its memory is reserved
	sessionWindow = 128 << 10 // credit for all requests whose memory is not reserved
	maxCalls      = 4096      // concurrent calls of a session
	maxUnready    = 16        // requests of a session whose memory is not reserved

	// maxDebt is how many bytes beyond credit the first pieces of such requests may have.
	maxDebt = sessionWindow
)

// Causes of the end of calls.
var (
	errGone    = errors.New("the client is gone")
	errStalled = errors.New("the client took nothing of the answer for too long")
	errRecall  = errors.New("the client took nothing of the answer while others waited for memory")
	errToken   = errors.New("the token of the session is not valid any more")
)

// session is the connection of one client.
//
// One goroutine reads. It serves quick calls itself, so that such a call needs no switch to
// another goroutine: it reads the request, calls the log and queues the answer, which is sent
// when no further input is buffered. Such a call may still be slow, because of the disk or
// because it waits for memory. So the timer of the session runs while the reader serves a call.
// If the timer finds the same call twice, its goroutine becomes the reader, and the former reader
// only finishes its call. turn decides between the two: both try to set it to 0, and the one that
// succeeds continues as the reader.
//
// Every other call has a goroutine of its own. The session ends, and releases its memory, when
// the reader and all calls have ended.
type session struct {
	h    *Handler
	conn *wire.Conn
	hold *budget.Hold  // sessionMemory
	over chan struct{} // closed when the reader and all calls have ended
	goOn func()        // is read; a field, because the table of methods would refer to itself otherwise

	outcomes *outcomes // set before the first call; nil: the client does not ask for lost answers

	// Fields of the goroutine that reads.

	in      *wire.Reader
	turns   uint64       // number of calls that a reader has served itself
	serving *sessionCall // the last one of these calls

	turn     atomic.Uint64 // number, in turns, of the call that the reader is serving; 0: none
	watched  atomic.Bool   // the timer runs
	timer    *time.Timer   // of watch
	seen     uint64        // of the timer only: turn when it ran last
	refusing atomic.Bool   // mu.draining is set
	active   atomic.Int64  // calls with one answer that have goroutines of their own

	mu struct {
		sync.Mutex
		calls    map[uint64]*sessionCall
		token    [sha256.Size]byte // of the client, if there is one
		next     [sha256.Size]byte // that the client has presented later; zero: none
		left     int64             // credit of the client for requests; ≥ -maxDebt, less than 0 by first pieces only
		back     int64             // bytes received since credit was last sent
		unready  int               // requests whose memory is not reserved; ≤ maxUnready
		users    int               // the reader, and the calls with goroutines
		draining error             // why calls are refused; nil: they are not
		leaving  *time.Timer       // of look; nil before the handler is closed
		busy     bool              // the log was executing a call when look ran last
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
	_ = conn.SetDeadline(time.Now().Add(headerTimeout)) // fails only if the connection does
	s := &session{h: h, hold: hold.Move(), over: make(chan struct{})}
	s.goOn = s.read
	s.conn = wire.New(conn, wire.Windows{Call: wire.SmallMessage, Session: wire.SmallMessage}, &wire.Options{KeepAlive: h.o.KeepAlive})
	came, _ := buffers.Peek(buffers.Reader.Buffered()) // all of it is buffered
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

// begin exchanges the first frames, and then reads.
func (s *session) begin() {
	if err := s.greet(); err != nil {
		s.end(err)
		return
	}
	s.h.checkSession(s) // the token may have changed since it was checked
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

// take handles a frame. It returns false if another goroutine has become the reader.
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

// end ends the session. The reader calls it last.
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

// cut closes the connection and cancels all calls, except those for which spares returns true.
func (s *session) cut(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutLocked(cause)
}

func (s *session) cutLocked(cause error) {
	s.conn.Close(cause)
	s.mu.draining = cause
	for _, c := range s.mu.calls {
		if !s.spares(c, cause) {
			s.cancelLocked(c, errGone)
		}
	}
}

// cancelLocked ends a call, even if its request is still arriving, so that it has no goroutine.
func (s *session) cancelLocked(c *sessionCall, cause error) {
	c.cancel(cause)
	if a := &c.arriving; a.ready && a.parts.Open() && !a.over {
		s.dropLocked(c, canceled(cause))
	}
}

// release is called by the reader, and by each call with a goroutine of its own, when it has
// ended.
func (s *session) release() {
	s.mu.Lock()
	s.mu.users--
	last := s.mu.users == 0
	if last && s.mu.leaving != nil {
		s.mu.leaving.Stop()
	}
	s.mu.Unlock()
	if last {
		s.conn.Wait()
		s.hold.Release()
		s.h.endSession(s)
		close(s.over)
	}
}

// drain refuses further calls and asks the client to end the session. Running calls continue,
// except streams if the cause is the token of the session.
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

// leave lets the session end with its handler: its client has closeGrace to close the connection when
// the log executes no call of the session any more. The session must drain.
func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.busy = s.busyLocked()
	s.mu.leaving = time.AfterFunc(closeGrace, s.look)
}

// look, called by the timer, cuts the session if the log was executing no call when it ran last, and
// executes none now. So an answer that was sent meanwhile can be read.
func (s *session) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn.Err() != nil {
		return // it ends without its client
	}
	busy := s.busyLocked()
	if !busy && !s.mu.busy {
		s.cutLocked(errStopping)
		return
	}
	s.conn.Flush()
	s.mu.busy = busy
	s.mu.leaving.Reset(closeGrace)
}

// busyLocked reports whether the log executes a call of the session that is no stream. Other calls
// wait for the client, or end with the handler.
func (s *session) busyLocked() bool {
	for _, c := range s.mu.calls {
		if a := &c.arriving; !c.streams && !c.sends.Load() && !a.over && (a.hold == nil || !a.parts.Open()) {
			return true
		}
	}
	return s.turn.Load() != 0
}

// renew records a further token of the client, which may not be valid yet.
func (s *session) renew(token []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.next = sha256.Sum256(token)
}

// holds reports whether the client has presented the token with that hash.
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
// clients have not presented the new token refuse calls at once and end after half a second, with
// their running calls.
func (h *Handler) SetToken(token string) {
	h.tokenHash.Store(hashOf(token))
	h.mu.Lock()
	all := slices.Collect(maps.Keys(h.mu.sessions))
	h.mu.Unlock()
	for _, s := range all {
		h.checkSession(s)
	}
}

// defaultTokenGrace is how long calls may continue in a session whose token is not valid any more.
const defaultTokenGrace = 500 * time.Millisecond

// checkSession ends a session whose client has not presented the token of the handler.
func (h *Handler) checkSession(s *session) {
	if sum := h.tokenHash.Load(); sum != nil && !s.holds(sum) {
		s.drain(errToken)
		time.AfterFunc(h.tokenGrace, func() { s.cut(errToken) })
	}
}

// SessionStats are statistics of the sessions of a handler.
type SessionStats struct {
	Open     int    // present number
	Opened   uint64 // since the handler was made
	BytesIn  uint64 // read from clients
	BytesOut uint64 // written to clients

	Calls map[string]uint64 // calls begun since the handler was made, by method of the protocol file; "unknown" for other methods
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

// sessionCounters are the counters of ended sessions, and of calls.
type sessionCounters struct {
	opened, in, out atomic.Uint64
	calls           [wire.Methods]atomic.Uint64 // by method; 0: unknown methods
}

func (c *sessionCounters) counter(m wire.Method) *atomic.Uint64 {
	if int(m) >= len(c.calls) {
		m = 0
	}
	return &c.calls[m]
}

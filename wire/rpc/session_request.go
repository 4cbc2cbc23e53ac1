package rpc

import (
	"context"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	wire "github.com/mainstemdev/mainstem/internal/session"
)

// defaultWatchEvery is the period of the timer that watches the reader: a call may keep the
// reader for once to twice this time.
const defaultWatchEvery = 500 * time.Microsecond

// quickCommit is the duration of the last commit of the log up to which the reader serves the
// next commit itself.
const quickCommit = 200 * time.Microsecond

// arrival is a request that is arriving. Its fields are under the lock of the session.
type arrival struct {
	parts wire.Parts
	size  int64        // of the whole request
	hold  *budget.Hold // the memory of the request; nil: the reader serves it
	ready bool         // the memory is reserved
	cost  int64        // bytes that came before the memory was reserved
	late  *time.Timer  // for the rest of the request; nil: it came complete
	over  bool         // the call was refused, and the rest of the request is dropped
}

// call begins a call. It returns false if another goroutine has become the reader.
func (s *session) call(h wire.Header, p []byte) (reads bool, err error) {
	head, piece, err := wire.ParseCall(h.Flags, p)
	if err != nil {
		return true, err
	}
	s.conn.Throttle()
	s.h.sessions.counter(head.Method).Add(1)
	c := &sessionCall{
		s: s, number: h.Call, method: head.Method, streams: methodOf(head.Method).streams,
		again: head.Again && head.Method == wire.Commit,
	}
	if us := head.Timeout; us > 0 {
		c.deadline = time.Now().Add(time.Duration(min(us, 1<<40)) * time.Microsecond)
	}
	c.answer = s.h.memory.answers.Hold()
	if s.quick(c, h.Flags, head) {
		c.request = append(c.small[:0], piece...)
		return s.serveInline(c), nil
	}
	return true, s.admit(c, h.Flags, head, piece)
}

// quick reports whether the reader should serve a call itself: a read that is quick unless it
// waits for a disk, or a commit while no other calls but streams are running.
func (s *session) quick(c *sessionCall, f wire.Flags, head wire.Call) bool {
	m := methodOf(c.method)
	if f&wire.Last == 0 || c.again || int64(head.Size) > min(wire.SmallMessage, s.h.maxRequest(c.method)) || !m.quick || s.refusing.Load() {
		return false
	}
	if c.method != wire.Commit {
		return true
	}
	return s.active.Load() == 0 && !s.in.Buffered() && s.h.lastCommit.Load() < int64(quickCommit)
}

// serveInline serves a call in the reader. It returns false if another goroutine has become the
// reader meanwhile.
func (s *session) serveInline(c *sessionCall) (reads bool) {
	s.turns++
	turn := s.turns
	c.inline, c.turn = true, turn
	s.serving = c
	s.turn.Store(turn)
	if !s.watched.Load() && s.watched.CompareAndSwap(false, true) {
		s.timer.Reset(s.h.watchEvery)
	}
	c.serve()
	if s.turn.CompareAndSwap(turn, 0) {
		return true
	}
	s.conn.Flush()
	s.remove(c)
	return false
}

// watch, called by the timer, becomes the reader if the present one has been serving the same
// call since watch ran last.
func (s *session) watch() {
	turn := s.turn.Load()
	if turn != 0 && turn == s.seen && s.takeTurn(turn) {
		s.watched.Store(false)
		s.conn.Flush()
		s.read()
		return
	}
	s.seen = turn
	if turn != 0 {
		s.timer.Reset(s.h.watchEvery)
		return
	}
	s.watched.Store(false)
	if s.turn.Load() != 0 && s.watched.CompareAndSwap(false, true) { // a call has just begun
		s.timer.Reset(s.h.watchEvery)
	}
}

// takeTurn gives the call that the reader serves the status of a call with its own goroutine, if
// turn is still the number of that call. It sets s.turn to 0 under the lock, so that the
// goroutine that finds its turn taken, and removes the call, runs after addLocked.
func (s *session) takeTurn(turn uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.turn.CompareAndSwap(turn, 0) {
		return false
	}
	s.addLocked(s.serving)
	return true
}

// handOver makes another goroutine the reader if this call is served by the reader. The goroutine
// that serves c must call it before it waits for anything that only the reader receives.
func (s *session) handOver(c *sessionCall) {
	if c.inline && s.takeTurn(c.turn) {
		s.conn.Flush()
		go s.goOn()
	}
}

// addLocked makes c a call with a goroutine of its own.
func (s *session) addLocked(c *sessionCall) {
	s.mu.calls[c.number] = c
	s.mu.users++
	s.active.Add(c.single())
	if cause := s.mu.draining; cause != nil && s.conn.Err() != nil && !s.spares(c, cause) {
		c.cancel(errGone)
	}
}

// remove reverses addLocked.
func (s *session) remove(c *sessionCall) {
	s.mu.Lock()
	delete(s.mu.calls, c.number)
	s.mu.Unlock()
	s.active.Add(-c.single())
	s.release()
}

// single returns 1 for a call with one answer, and 0 for one with a stream of answers, which may
// be idle for hours.
func (c *sessionCall) single() int64 {
	if c.streams {
		return 0
	}
	return 1
}

// admit accepts a call that gets a goroutine of its own when its request is complete. A call
// that is refused takes no memory.
func (s *session) admit(c *sessionCall, f wire.Flags, head wire.Call, piece []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &c.arriving
	hold := s.h.memory.requests.Hold()
	a.size, a.hold = int64(head.Size), &hold
	if !wire.IsFree(f|wire.First, int(head.Size)) {
		if err := s.chargeLocked(c, int64(len(piece))); err != nil {
			return err
		}
	}
	if s.mu.calls[c.number] != nil {
		return wire.Violation("call %d begins twice", c.number)
	}
	e := s.refusalLocked(c)
	reserved := e == nil && a.hold.Try(requestCopies*a.size)
	if e == nil && !reserved && (s.mu.unready >= maxUnready || s.mu.left < -maxDebt) {
		e = manyWait()
	}
	if e != nil {
		s.creditLocked(a.cost)
		c.inline = true // s.mu is held, so the reader sends it
		c.refuse(e)
		return nil
	}
	a.parts.Lean = !reserved
	whole, _, err := a.parts.AddCall(f, head, piece)
	if err != nil {
		a.hold.Release()
		return err
	}
	s.addLocked(c)
	if !whole && s.h.o.BodyTimeout > 0 {
		a.late = time.AfterFunc(s.h.o.BodyTimeout, func() { s.late(c) })
	}
	if reserved {
		s.readyLocked(c)
		return nil
	}
	s.mu.unready++
	go s.await(c)
	return nil
}

// chargeLocked takes n bytes of a request, whose memory is not reserved yet, off the credit. A
// first piece may come without credit of the session, so that calls which wait do not stop
// others. The caller refuses the call if such pieces are many.
func (s *session) chargeLocked(c *sessionCall, n int64) error {
	a := &c.arriving
	first := a.cost == 0 && n <= wire.PieceSize
	a.cost += n
	s.mu.left -= n
	switch {
	case s.mu.left < 0 && !first:
		return wire.Violation("requests have %d bytes more than credit", -s.mu.left)
	case a.cost > callWindow:
		return wire.Violation("call %d has %d bytes without credit", c.number, a.cost)
	}
	return nil
}

// manyWait returns the error for a request that waits for memory beside as many as may.
func manyWait() *mainstem.Error {
	return mainstem.Errorf(mainstem.KindUnavailable, "rpc", "as many requests of this session wait for memory as may").WithHint("try again later")
}

// refusalLocked returns the error for a call that is refused, or nil.
func (s *session) refusalLocked(c *sessionCall) *mainstem.Error {
	limit := s.h.maxRequest(c.method)
	switch {
	case methodOf(c.method).serve == nil:
		return mainstem.Errorf(mainstem.KindUnsupported, "rpc", "method %d is not one that this server knows", c.method)
	case c.arriving.size > limit:
		return mainstem.Errorf(mainstem.KindInvalid, "rpc", "the request has %d bytes: the limit is %d", c.arriving.size, limit).
			WithHint("split the batch, or raise the server's limit")
	case s.mu.draining != nil:
		return mainstem.Errorf(mainstem.KindUnavailable, "rpc", "%w", s.mu.draining)
	case len(s.mu.calls) >= maxCalls:
		return mainstem.Errorf(mainstem.KindUnavailable, "rpc", "%d calls of this session are being served: that is the limit", maxCalls)
	}
	return nil
}

// maxRequest returns the largest size of a request of a method, in bytes.
func (h *Handler) maxRequest(m wire.Method) int64 {
	if m == wire.Commit {
		return int64(h.o.MaxCommit)
	}
	return int64(h.o.MaxRequest)
}

// await waits for the memory of a request, as long as a request may take to arrive.
func (s *session) await(c *sessionCall) {
	ctx, stop := s.h.untilStopped(c)
	defer stop()
	if d := s.h.o.BodyTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, fmt.Errorf("waited %v", d))
		defer cancel()
	}
	hold := s.h.memory.requests.Hold()
	err := hold.Acquire(ctx, requestCopies*c.arriving.size)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.unready--
	if c.arriving.over {
		hold.Release()
		return
	}
	if err != nil {
		s.dropLocked(c, mainstem.Refusef(mainstem.KindUnavailable, "rpc", "%w", err).WithHint("try again later"))
		return
	}
	c.arriving.hold = hold.Move()
	if err := c.Err(); err != nil { // it ended when it was given the memory, and the rest may never come
		s.dropLocked(c, canceled(err))
		return
	}
	s.readyLocked(c)
	s.conn.Flush()
}

// readyLocked records that the memory of a request is reserved, so that the rest of it may come:
// it queues credit of the call for the rest, and for what has come. From then on each piece gets
// its credit back at once, so nothing of the call is outstanding, and the client can send the
// next piece although first pieces of other calls may have used up the credit of the session.
func (s *session) readyLocked(c *sessionCall) {
	a := &c.arriving
	a.ready, a.parts.Lean = true, false
	s.creditLocked(a.cost)
	if !a.parts.Open() {
		s.startLocked(c)
		return
	}
	s.conn.Queue(wire.AppendCredit(nil, c.number, int(max(a.size-callWindow, a.cost))))
}

// creditLocked adds n bytes to the credit of the client, which it sends from time to time.
func (s *session) creditLocked(n int64) {
	s.mu.left += n
	if s.mu.back += n; s.mu.back >= sessionWindow/4 {
		s.conn.Post(wire.AppendCredit(nil, 0, int(s.mu.back)))
		s.mu.back = 0
	}
}

// piece handles a piece of a request.
func (s *session) piece(h wire.Header, p []byte) error {
	s.conn.Throttle() // it is answered with credit
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.mu.calls[h.Call]
	if c == nil || c.arriving.over { // the call was refused or answered
		s.mu.left -= int64(len(p))
		s.creditLocked(int64(len(p)))
		return nil
	}
	a := &c.arriving
	if !a.parts.Open() {
		return wire.Violation("call %d goes on after its request", h.Call)
	}
	whole, cost, err := a.parts.Add(h.Flags, p)
	if err != nil {
		return err
	}
	if !a.ready {
		if err = s.chargeLocked(c, int64(cost)); err == nil && s.mu.left < -maxDebt {
			s.dropLocked(c, manyWait())
		}
		return err
	}
	s.mu.left -= int64(cost)
	s.creditLocked(int64(cost))
	if whole {
		s.startLocked(c)
	} else {
		s.conn.Queue(wire.AppendCredit(nil, c.number, cost))
	}
	return nil
}

// startLocked starts a call whose request is complete.
func (s *session) startLocked(c *sessionCall) {
	if c.arriving.late != nil {
		c.arriving.late.Stop()
	}
	c.request, c.arriving.parts.Body = c.arriving.parts.Body, nil
	s.h.workers.start(c)
}

// late refuses a call whose request did not arrive in time.
func (s *session) late(c *sessionCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.arriving.parts.Open() && !c.arriving.over {
		s.dropLocked(c, mainstem.Refusef(mainstem.KindUnavailable, "rpc", "the request did not arrive within %v", s.h.o.BodyTimeout))
	}
}

// dropLocked ends a call whose request will not be served.
func (s *session) dropLocked(c *sessionCall, e *mainstem.Error) {
	a := &c.arriving
	a.over = true
	if a.late != nil {
		a.late.Stop()
	}
	if !a.ready {
		s.creditLocked(a.cost)
	}
	a.hold.Release()
	a.parts.Body = nil
	go func() { // s.mu is held
		c.refuse(e)
		c.endContext(context.Canceled, nil)
		s.remove(c)
	}()
}

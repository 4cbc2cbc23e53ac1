package remotelog

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// readEvery is how long a caller may read, or nobody, before the session's reader does: between
// once and twice this time.
const readEvery = time.Millisecond

// Who reads a session.
const (
	ofNobody = iota // no call is on its way
	ofReader        // the goroutine of session.read
	ofCaller        // of a call with one answer, until that is there
	holders
)

// turn says whose turn it is to read a session. A caller that finds nobody reading reads for its
// own answer: no other goroutine need be woken for it, which would cost more than all else that
// a small call does. The reader reads while there are streams and calls of many callers.
//
// Invariants:
//   - Only who has the turn uses session.in and calls session.take, and only it gives the turn
//     away. A turn that nobody has may be taken.
//   - Where there are calls, somebody has the turn or is about to take it: a call begins before
//     its caller looks at the turn, and the turn is left to nobody only under the session's lock,
//     and when there are no calls.
//   - The timer runs unless the reader has the turn. What it finds unchanged from one tick to the
//     next ends: a caller is interrupted by a deadline, and hands on to the reader.
type turn struct {
	now    atomic.Uint64 // how often it has changed, times holders, plus who has it
	resume chan struct{} // gets an element when it has become the reader's
	broken error         // why a caller could not read on. It is of who has the turn
	idle   bool          // no call was left when one ended last. It is of who has the turn
	timer  *time.Timer
	timed  atomic.Bool // the timer runs
	seen   uint64      // now at the last tick. It is the timer's
}

func (t *turn) start(tick func()) {
	t.now.Store(ofReader)
	t.resume = make(chan struct{}, 1)
	t.timer = time.AfterFunc(time.Hour, tick)
	t.timer.Stop()
}

// pass changes the turn from what it was. It returns false if somebody else did before.
func (t *turn) pass(was, to uint64) bool {
	if !t.now.CompareAndSwap(was, was-was%holders+holders+to) {
		return false
	}
	if to == ofReader {
		t.resume <- struct{}{}
	} else {
		t.watch()
	}
	return true
}

// watch starts the timer unless it runs.
func (t *turn) watch() {
	if !t.timed.Load() && t.timed.CompareAndSwap(false, true) {
		t.timer.Reset(readEvery)
	}
}

// tick is what the timer does.
func (s *session) tick() {
	t := &s.turn
	now := t.now.Load()
	same := now == t.seen
	t.seen = now
	switch {
	case now%holders == ofReader:
		t.timed.Store(false)
		if t.now.Load()%holders != ofReader { // just now
			t.watch()
		}
		return
	case same && now%holders == ofNobody:
		t.pass(now, ofReader)
	case same:
		_ = s.conn.NetConn().SetReadDeadline(time.Unix(1, 0)) // a closed connection interrupts reads itself
	}
	t.timer.Reset(readEvery)
}

// wakeReader lets the reader read, if nobody does.
func (s *session) wakeReader() {
	if now := s.turn.now.Load(); now%holders == ofNobody {
		s.turn.pass(now, ofReader)
	}
}

// read is the reader: it ends with the connection.
func (s *session) read() {
	err := s.readFrames()
	s.turn.timer.Stop()
	s.end(err)
}

func (s *session) readFrames() error {
	for {
		if interrupted, err := s.readFrame(); err != nil && !interrupted {
			return err
		}
		if s.turn.idle && s.rest() {
			<-s.turn.resume
			if s.turn.broken != nil {
				return s.turn.broken
			}
		}
	}
}

// readFor reads for the caller of c, unless somebody reads already. When it returns, the answer
// or a message of the stream is there, or somebody else has the turn.
func (s *session) readFor(c *sessionCall) {
	now := s.turn.now.Load()
	if now%holders != ofNobody || !s.turn.pass(now, ofCaller) {
		return
	}
	for !c.ended && len(c.queue) == 0 { // who had the turn before may have read it
		if interrupted, err := s.readFrame(); err != nil {
			if !interrupted {
				s.turn.broken = err
			}
			s.turn.pass(s.turn.now.Load(), ofReader)
			return
		}
	}
	if !c.ended || !s.rest() {
		s.turn.pass(s.turn.now.Load(), ofReader)
	}
}

// readFrame reads a frame and does what it says. A read may be interrupted for the caller that
// had the turn before; then nothing is lost.
func (s *session) readFrame() (interrupted bool, err error) {
	h, p, err := s.in.Next()
	if err == nil {
		return false, s.take(h, p)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && s.conn.Err() == nil {
		_ = s.conn.NetConn().SetReadDeadline(time.Time{}) // it fails when the connection does
		return true, err
	}
	return false, err
}

// rest leaves the turn to nobody, if there are no calls.
func (s *session) rest() bool {
	s.turn.idle = false
	if s.in.Buffered() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.calls) == 0 && s.turn.pass(s.turn.now.Load(), ofNobody)
}

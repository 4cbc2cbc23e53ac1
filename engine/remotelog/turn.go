package remotelog

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
)

// readEvery is the period of the timer of a turn: a caller may read, or nobody, for once to twice
// this time before the reader of the session does.
const readEvery = time.Millisecond

// Holders of the turn.
const (
	ofNobody = iota // no call is on its way
	ofReader        // the goroutine of session.read
	ofCaller        // a call with one answer, until it has the answer
	holders
)

// turn says which goroutine may read from a session. A caller that finds the turn free reads its
// own answer: no other goroutine must be woken for it, which would cost more than the rest of a
// small call. The reader goroutine reads while there are streams, or calls of many callers.
//
// Invariants:
//   - Only the holder of the turn uses session.in and calls session.take, and only the holder
//     gives the turn away. A free turn may be taken.
//   - While there are calls, the turn is held or about to be taken. A call begins before its
//     caller looks at the turn, and the turn becomes free only under the lock of the session, and
//     only when there are no calls. The caller of a stream looks when it waits for the first
//     message; if that is late, the timer has given the turn to the reader.
//   - The timer runs unless the reader has the turn. If the turn has not changed from one tick to
//     the next, the timer ends it: it gives a free turn to the reader, and interrupts a caller by
//     a deadline; the caller then passes the turn to the reader.
type turn struct {
	now    atomic.Uint64 // number of changes times holders, plus the holder
	resume chan struct{} // gets an element when the reader gets the turn
	broken error         // why a caller could not read on; of the holder of the turn
	idle   bool          // no call was left when the last one ended; of the holder of the turn
	timer  *time.Timer
	timed  atomic.Bool // the timer runs
	seen   uint64      // value of now at the last tick; of the timer
}

func (t *turn) start(tick func()) {
	t.now.Store(ofReader)
	t.resume = make(chan struct{}, 1)
	t.timer = time.AfterFunc(time.Hour, tick)
	t.timer.Stop()
}

// pass changes the turn from was to the holder to. It returns false if the turn has changed
// since.
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

// watch starts the timer unless it is running.
func (t *turn) watch() {
	if !t.timed.Load() && t.timed.CompareAndSwap(false, true) {
		t.timer.Reset(readEvery)
	}
}

// tick is the function of the timer.
func (s *session) tick() {
	t := &s.turn
	now := t.now.Load()
	same := now == t.seen
	t.seen = now
	switch {
	case now%holders == ofReader:
		t.timed.Store(false)
		if t.now.Load()%holders != ofReader { // it has just been passed on
			t.watch()
		}
		return
	case same && now%holders == ofNobody:
		t.pass(now, ofReader)
	case same:
		_ = s.conn.NetConn().SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection, where reads fail anyway
	}
	t.timer.Reset(readEvery)
}

// wakeReader gives the turn to the reader if it is free.
func (s *session) wakeReader() {
	if now := s.turn.now.Load(); now%holders == ofNobody {
		s.turn.pass(now, ofReader)
	}
}

// read is the reader goroutine. It ends with the connection.
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

// readFor reads for the caller of c, unless the turn is held. When it returns, the answer or a
// message of the stream is there, or another goroutine has the turn.
func (s *session) readFor(c *sessionCall) {
	now := s.turn.now.Load()
	if now%holders != ofNobody || !s.turn.pass(now, ofCaller) {
		return
	}
	for !c.ended && len(c.queue) == 0 { // the holder before may have read it
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

// readFrame reads a frame and handles it. The timer may interrupt the read because of the holder
// before; then nothing is lost.
func (s *session) readFrame() (interrupted bool, err error) {
	h, p, err := s.in.Next()
	if err == nil {
		return false, s.take(h, p)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && s.conn.Err() == nil {
		_ = s.conn.NetConn().SetReadDeadline(time.Time{}) // fails only if the connection does
		return true, err
	}
	return false, err
}

// rest frees the turn if there are no calls.
func (s *session) rest() bool {
	s.turn.idle = false
	if s.in.Buffered() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.calls) == 0 && s.turn.pass(s.turn.now.Load(), ofNobody)
}

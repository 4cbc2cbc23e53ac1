package remotelog

import (
	"runtime"
	"time"
)

// SetGrace changes how long Close waits for running calls.
func (l *Log) SetGrace(d time.Duration) { l.grace = d }

// SetRenewal changes the time between two renewals of the lease of a snapshot that is taken from now on.
func (l *Log) SetRenewal(d time.Duration) { l.renewal = d }

// RenewEvery is the time between two renewals of a lease without SetRenewal.
var RenewEvery = renewEvery

// ReadForAnswered reads for a call whose answer is there, in a turn that nobody has, and returns
// whether the turn is nobody's again. It was tried unless the timer of the turn came in between.
func (l *Log) ReadForAnswered() (free, tried bool) {
	l.sessions.mu.Lock()
	s := l.sessions.mu.current
	l.sessions.mu.Unlock()
	now := s.turn.now.Load()
	if now%holders != ofNobody {
		runtime.Gosched()
		return false, false
	}
	s.readFor(&sessionCall{ended: true})
	after := s.turn.now.Load()
	return after%holders == ofNobody, after/holders == now/holders+2 // to the caller and back
}

package remotelog

import (
	"runtime"
	"time"
)

// SetGrace changes how long Close waits for running calls.
func (l *Log) SetGrace(d time.Duration) { l.grace = d }

// ReadForAnswered leaves the turn of the session to nobody, reads for a call whose answer is
// there, and returns whether the turn is nobody's again.
func (l *Log) ReadForAnswered() bool {
	l.sessions.mu.Lock()
	s := l.sessions.mu.current
	l.sessions.mu.Unlock()
	for s.turn.now.Load()%holders != ofNobody {
		runtime.Gosched()
	}
	s.readFor(&sessionCall{ended: true})
	return s.turn.now.Load()%holders == ofNobody
}

package link

import "time"

// Stats are counts of a session since it began, except for those that say "now".
type Stats struct {
	Connections   int       // of the session, connected or not
	Connected     int       // now
	Reconnects    uint64    // connections that replaced one that had broken
	Waiting       int       // now: bytes that Send accepted, not yet written or not yet acknowledged
	SentMessages  uint64    // that Send accepted
	SentFrames    uint64    // data frames; those that were sent again count again
	SentBytes     uint64    // on the wire, without TLS; frames that were sent again count again
	ResentFrames  uint64    // data frames that were sent again
	TakenMessages uint64    // given to the handler
	TakenBytes    uint64    // on the wire, without TLS; frames that came again count again
	Blocked       uint64    // calls of Send that waited for credit
	Since         time.Time // when the session began
}

// Stats returns the counts of the session. Those of its streams are read one after another.
func (p *Peer) Stats() Stats {
	t := Stats{Connections: len(p.streams), Since: p.since}
	for _, s := range p.streams {
		s.addTo(&t)
	}
	return t
}

// Connected reports whether any stream has a connection, and since when. With several connections
// since is the attach time of the oldest. Without any it is the time of the last failure, or of the
// session's beginning.
func (p *Peer) Connected() (connected bool, since time.Time) {
	var lost time.Time
	for _, s := range p.streams {
		s.mu.Lock()
		if s.conn != nil && (!connected || s.began.Before(since)) {
			connected, since = true, s.began
		}
		if s.lostAt.After(lost) {
			lost = s.lostAt
		}
		s.mu.Unlock()
	}
	switch {
	case connected:
		return true, since
	case lost.IsZero(): // the first connection is being made
		return false, p.since
	}
	return false, lost
}

func (s *stream) addTo(t *Stats) {
	t.TakenMessages += s.takenMessages.Load()
	t.TakenBytes += s.takenBytes.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		t.Connected++
	}
	t.Reconnects += s.reconnects
	t.Waiting += s.out.held
	t.SentMessages += s.out.messages
	t.SentFrames += s.sentFrames
	t.SentBytes += s.sentBytes
	t.ResentFrames += s.out.resent
	t.Blocked += s.blocked
}

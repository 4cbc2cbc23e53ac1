package link

import "time"

// Stats are figures of a session since it began, except for those that say "now".
type Stats struct {
	Connections   int // of the session
	Connected     int // now
	Reconnects    uint64
	Waiting       int // now: bytes taken, and not yet written or not yet acknowledged
	SentMessages  uint64
	SentFrames    uint64
	SentBytes     uint64 // on the wire, without TLS; frames that were sent again count again
	ResentFrames  uint64
	TakenMessages uint64 // given to the handler
	TakenBytes    uint64 // on the wire, without TLS
	Blocked       uint64 // calls of Send that waited for credit
	Since         time.Time
}

// Stats returns the figures of the session.
func (p *Peer) Stats() Stats {
	t := Stats{Connections: len(p.streams), Since: p.since}
	for _, s := range p.streams {
		s.addTo(&t)
	}
	return t
}

// Connected reports whether there is any connection now, and since when there is or is not.
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

package actor

// bounded is the user part of a mailbox with a limit. The owner's mutex guards
// it. Readers take one message at a time, so the limit holds exactly.
//
// Invariant: senders wait only while the mailbox is full.
type bounded[M any] struct {
	limit   int
	ring    []envelope[M] // len is a power of two, or 0
	first   int           // index of the oldest
	n       int           // how many are in the ring
	waiting []*sender[M]  // in order of arrival
}

// sender is a Send that waits for room.
type sender[M any] struct {
	e    envelope[M]
	done chan error // closed when e is in the mailbox; gets ErrStopped if the actor ended first
	gone bool       // nobody reads done: e came from another node
}

const leastRing = 4

func (b *bounded[M]) full() bool { return b.n >= b.limit }

// push appends e whatever the limit says.
func (b *bounded[M]) push(e envelope[M]) {
	if b.n == len(b.ring) {
		ring := make([]envelope[M], max(leastRing, 2*len(b.ring)))
		k := copy(ring, b.ring[b.first:])
		copy(ring[k:], b.ring[:b.first])
		b.ring, b.first = ring, 0
	}
	b.ring[(b.first+b.n)&(len(b.ring)-1)] = e
	b.n++
}

// pop removes the oldest and lets the first waiting sender in.
func (b *bounded[M]) pop() (envelope[M], bool) {
	if b.n == 0 {
		return envelope[M]{}, false
	}
	e := b.ring[b.first]
	b.ring[b.first] = envelope[M]{}
	b.first = (b.first + 1) & (len(b.ring) - 1)
	b.n--
	if len(b.waiting) > 0 && !b.full() {
		s, _ := shift(&b.waiting)
		b.push(s.e)
		close(s.done)
	}
	return e, true
}

// leave removes a sender that does not want to wait any longer, and reports
// whether it was still waiting.
func (b *bounded[M]) leave(s *sender[M]) bool {
	for i, w := range b.waiting {
		if w == s {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			return true
		}
	}
	return false
}

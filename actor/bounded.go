package actor

// bounded is the User part of a mailbox with a limit: a ring of envelopes, and, with the policy
// Block, the senders that wait for room. The mutex of the actor guards it. The reader takes one
// envelope at a time, so that at no time more messages wait than the limit allows.
//
// Tasks (functions of timers, answers to AskThen, a Drain) count like messages but are never
// refused: they go into the ring even if it is full, and n may exceed limit then.
//
// Invariant: waiting is empty unless n >= limit. So a message that arrives never overtakes a sender
// that waits.
type bounded[M any] struct {
	limit   int           // Options.Mailbox
	ring    []envelope[M] // len is a power of two, or 0
	first   int           // index of the oldest
	n       int           // how many envelopes are in the ring
	waiting []*sender[M]  // in order of arrival
}

// sender is a Send that waits for room.
type sender[M any] struct {
	e    envelope[M]
	done chan error // of capacity 1: closed when e is in the ring, or gets ErrStopped
	gone bool       // nobody reads done: e came from another node, whose transport did not wait
}

// leastRing is the length of the first ring.
const leastRing = 4

func (b *bounded[M]) full() bool { return b.n >= b.limit }

// push appends e, even if the mailbox is full. The ring doubles when it has no slot left.
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

// pop removes the oldest envelope. If there is room then, the envelope of the sender that has
// waited longest takes it.
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

// popMessage removes the oldest message, and leaves the tasks before it in their order. It returns
// false if there are only tasks.
func (b *bounded[M]) popMessage() (envelope[M], bool) {
	mask := len(b.ring) - 1
	for i := range b.n {
		e := b.ring[(b.first+i)&mask]
		if e.x != nil && e.x.task != nil {
			continue
		}
		for ; i > 0; i-- {
			b.ring[(b.first+i)&mask] = b.ring[(b.first+i-1)&mask]
		}
		b.ring[b.first] = envelope[M]{}
		b.first = (b.first + 1) & mask
		b.n--
		return e, true
	}
	return envelope[M]{}, false
}

// leave removes a sender that has stopped waiting. It returns false if the sender was not in
// waiting any more: then done has been closed or has got an error.
func (b *bounded[M]) leave(s *sender[M]) bool {
	for i, w := range b.waiting {
		if w == s {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			return true
		}
	}
	return false
}

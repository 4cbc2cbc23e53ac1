package cluster

import (
	"context"
	"errors"
	"sync"

	"github.com/mainstemdev/mainstem/actor/cluster/link"
)

// replies are small frames that must not wait for credit, because the goroutine that sends them
// takes frames from the peer, or is an actor that ends: while there is no credit they wait
// in a queue, and a goroutine waits for it.
type replies struct {
	session *session
	mu      sync.Mutex // guards the fields below
	room    *sync.Cond // signals that queue is shorter, or closed
	queue   []reply
	working bool
	closed  bool
}

type reply struct {
	lane  uint32
	frame func(dst []byte) []byte
}

// noWait is the context of a Send that does not wait for credit.
var noWait context.Context

// maxReplies is how many frames wait. Beyond it, so does a sender that has more: a peer that
// asks for much and takes nothing is not listened to.
const maxReplies = 1 << 14

// send sends a frame, from an actor of which 0 is none. If the session has ended it is forgotten.
func (q *replies) send(from uint64, frame func(dst []byte) []byte) {
	r := reply{lane(from), frame}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 && !q.working && !q.closed && !q.full(r) {
		return
	}
	for len(q.queue) >= maxReplies && !q.closed {
		q.room.Wait()
	}
	if q.closed {
		return
	}
	q.queue = append(q.queue, r)
	if !q.working {
		q.working = true
		q.session.cluster.work.Go(q.drain)
	}
}

// full sends r and reports whether there was no credit for it. The caller holds mu.
func (q *replies) full(r reply) bool {
	err := q.session.peer.Send(noWait, r.lane, link.ExactlyOnce, func(dst []byte) ([]byte, error) { return r.frame(dst), nil })
	return errors.Is(err, link.ErrWindow)
}

// drain sends what waits, in order.
func (q *replies) drain() {
	for {
		q.mu.Lock()
		if len(q.queue) == 0 || q.closed {
			q.queue, q.working = nil, false
			q.mu.Unlock()
			return
		}
		r := q.queue[0]
		q.queue[0] = reply{}
		q.queue = q.queue[1:]
		q.room.Signal()
		q.mu.Unlock()
		_ = q.session.peer.Send(q.session.life, r.lane, link.ExactlyOnce, func(dst []byte) ([]byte, error) { return r.frame(dst), nil })
	}
}

// close forgets what waits: the session has ended.
func (q *replies) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.room.Broadcast()
}

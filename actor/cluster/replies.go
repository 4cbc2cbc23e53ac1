package cluster

import (
	"context"
	"errors"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
)

// replies sends frames whose sender must not wait for credit, because it is a reader of the
// session, or an actor that is ending. If two readers waited for credit of each other, neither
// would read the acknowledgements that give it. While there is credit and nothing is queued, send
// sends a frame at once. Else it appends the frame to queue, and the goroutine drain waits for
// credit. So all frames of replies keep their order.
type replies struct {
	session *session
	mu      sync.Mutex // guards the fields below
	room    *sync.Cond // signals that queue is shorter, or closed
	queue   []reply    // at most maxReplies
	working bool       // drain runs
	closed  bool       // the session has ended
}

type reply struct {
	lane  uint32
	frame func(dst []byte) []byte
}

// noWait is the context of a Send that does not wait for credit.
var noWait context.Context

// maxReplies is the number of frames that can be queued. At the limit send waits: a peer that causes
// replies and handles none is not read any more.
const maxReplies = 1 << 14

// send sends or queues a frame, from an actor by number or 0. If the session has ended it drops the
// frame: session.end notifies its receiver's side. frame may be called after send has returned.
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

// full tries to send r, and reports whether there was no credit. The caller holds mu.
func (q *replies) full(r reply) bool { return errors.Is(q.try(noWait, r), link.ErrWindow) }

// try sends r, and logs a failure that is neither the lack of credit nor the end of the session.
func (q *replies) try(ctx context.Context, r reply) error {
	err := q.session.peer.Send(ctx, r.lane, link.ExactlyOnce, func(dst []byte) ([]byte, error) { return r.frame(dst), nil })
	if err != nil && !errors.Is(err, link.ErrWindow) && !errors.Is(err, mainstem.ErrClosed) {
		q.session.cluster.log.Warn("a frame to another node was lost", "node", q.session.name, "err", err)
	}
	return err
}

// drain is a goroutine that sends the queue in order, and ends when it is empty.
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
		_ = q.try(q.session.life, r)
	}
}

// close drops the queue when the session has ended.
func (q *replies) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.room.Broadcast()
}

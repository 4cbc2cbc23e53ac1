package actor

import (
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// A mailbox has two parts: express, for signals and for messages above User, and, for User
// messages, either a queue (no limit) or a bounded (Options.Mailbox).
//
// A queue is a chain of chunks. Senders append to the last chunk under the lock of the actor. The
// reader takes the first chunk off the chain under the lock, even if it is not full, and reads it
// without the lock; by then it is out of reach of senders. A chunk that was read is cleared and
// used again: as the spare of this queue, or, if it is large, by any actor of the message type.

// envelope is an element of a mailbox: a message or a task.
//
// Invariant: x is nil for a plain message. If x.task is not nil, m is no message, and the task runs
// in place of Receive.
type envelope[M any] struct {
	m M
	x *extra
}

// extra holds the fields that few messages need. Its fields do not change while it is in a mailbox.
type extra struct {
	task  func() error // runs in the actor's turn, in place of a message; an error ends the actor
	inc   uint32       // with task: the incarnation that it belongs to; 0 means any
	trail *trail       // for the observer and the tracer, or nil
	until time.Time    // after this time the message becomes a dead letter; zero means never

	asked  asked         // the question that the message asks, or nil
	ticket uint64        // the ticket of the question: see question
	taken  atomic.Uint64 // ticket+1 once the message has left the mailbox
}

// asked is a question of any answer type.
type asked interface {
	// abandon answers the question with ErrNoReply and a cause, unless it has been answered or
	// its ticket is another one by now. by is the actor that will not answer.
	abandon(ticket uint64, by Address, cause error)
}

// The sizes of chunks. The first chunk of a mailbox is small because there may be a million idle
// actors; the others are large so that a busy actor seldom takes the lock.
const (
	smallChunk      = 4    // envelopes in the first chunk
	largeChunkBytes = 4096 // bytes of a large chunk, as far as leastLargeChunk allows
	leastLargeChunk = 16   // the least number of envelopes in a large chunk
)

// chunk is an element of the chain: it is filled once from the front and read once from the front.
type chunk[M any] struct {
	slots []envelope[M] // len: how many are filled; cap: how many there can be
	next  *chunk[M]
}

// firstChunk is a small chunk and its slots in one allocation.
type firstChunk[M any] struct {
	chunk[M]
	room [smallChunk]envelope[M]
}

func newSmallChunk[M any]() *chunk[M] {
	f := new(firstChunk[M])
	f.slots = f.room[:0]
	return &f.chunk
}

func (c *chunk[M]) small() bool { return cap(c.slots) == smallChunk }

// typeState holds the pools that the actors of one message type on one node share.
type typeState[M any] struct {
	node     *Node
	chunks   sync.Pool // of *chunk[M]: large ones, empty and cleared
	landings sync.Pool // of *landing[M]: see decode
	asks     askPools  // of questions to these actors
}

func newTypeState[M any](n *Node) *typeState[M] {
	b := &typeState[M]{node: n}
	size := max(leastLargeChunk, largeChunkBytes/int(reflect.TypeFor[envelope[M]]().Size()))
	b.chunks.New = func() any { return &chunk[M]{slots: make([]envelope[M], 0, size)} }
	return b
}

// release puts an empty, cleared chunk into the pool if it is large.
func (b *typeState[M]) release(c *chunk[M]) {
	if !c.small() {
		b.chunks.Put(c)
	}
}

// queue is the User part of a mailbox without a limit. The mutex of the actor guards it. The reader
// takes whole chunks, so a busy reader and the senders seldom wait for one another.
//
// Invariants: head and tail are both nil or both not nil; no chunk of the chain is empty; n is the
// sum of the lengths of the chunks in the chain, without the one that the reader has taken.
type queue[M any] struct {
	head, tail *chunk[M]
	spare      *chunk[M] // an empty, cleared chunk for the next grow, or nil
	n          int       // envelopes in the chain, tasks included
}

func (q *queue[M]) empty() bool { return q.head == nil }

// push appends e.
func (q *queue[M]) push(b *typeState[M], e envelope[M]) {
	t := q.tail
	if t == nil || len(t.slots) == cap(t.slots) {
		t = q.grow(b)
	}
	t.slots = append(t.slots, e)
	q.n++
}

// grow appends an empty chunk to the chain and returns it: the spare one, a new small one if the
// chain is empty, or a large one of the pool.
func (q *queue[M]) grow(b *typeState[M]) *chunk[M] {
	c := q.spare
	q.spare = nil
	switch {
	case c != nil:
	case q.tail == nil:
		c = newSmallChunk[M]()
	default:
		c = b.chunks.Get().(*chunk[M])
	}
	if q.tail == nil {
		q.head = c
	} else {
		q.tail.next = c
	}
	q.tail = c
	return c
}

// take removes the first chunk and returns it, nil if the chain is empty.
func (q *queue[M]) take() *chunk[M] {
	c := q.head
	if c == nil {
		return nil
	}
	q.head = c.next
	if q.head == nil {
		q.tail = nil
	}
	c.next = nil
	q.n -= len(c.slots)
	return c
}

// giveBack takes back a chunk that was read to its end, and whose slots were cleared: it becomes
// the spare one, or goes to the pool if there is one already.
func (q *queue[M]) giveBack(b *typeState[M], c *chunk[M]) {
	c.slots = c.slots[:0]
	if q.spare == nil {
		q.spare = c
		return
	}
	b.release(c)
}

// rest is called when the actor becomes idle. A large spare chunk goes to the pool, so that an idle
// actor keeps a small one at most.
func (q *queue[M]) rest(b *typeState[M]) {
	if q.spare != nil && !q.spare.small() {
		b.release(q.spare)
		q.spare = nil
	}
}

// express is the part of a mailbox that is handled before User messages. The mutex of the actor
// guards it. It exists only while something is in it.
type express[M any] struct {
	signals []signal      // handled first, in their order
	urgent  []envelope[M] // handled when there are no signals
	system  []envelope[M] // handled when there are no signals and no Urgent messages
}

func (x *express[M]) push(p Priority, e envelope[M]) {
	if p == Urgent {
		x.urgent = append(x.urgent, e)
	} else {
		x.system = append(x.system, e)
	}
}

// pop removes the first message of the highest priority.
func (x *express[M]) pop() (envelope[M], bool) {
	if e, ok := shift(&x.urgent); ok {
		return e, true
	}
	return shift(&x.system)
}

// shift removes the first element of *q and returns it, false if *q is empty. It clears the slot,
// so that the slice keeps nothing alive.
func shift[T any](q *[]T) (T, bool) {
	var zero T
	if len(*q) == 0 {
		return zero, false
	}
	e := (*q)[0]
	(*q)[0] = zero
	*q = (*q)[1:]
	if len(*q) == 0 {
		*q = nil
	}
	return e, true
}

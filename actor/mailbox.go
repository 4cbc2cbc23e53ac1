package actor

import (
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// envelope is an element of a mailbox: a message or a task.
//
// Invariant: x is nil for a plain message; x.task non-nil means that m is not a
// message: the task runs in its place.
type envelope[M any] struct {
	m M
	x *extra
}

// extra holds the fields that few messages need.
type extra struct {
	task  func() error // runs in the actor's turn, in place of a message
	inc   uint32       // with task: the incarnation it belongs to; 0 means any
	trail *trail       // what observation needs, or nil
	until time.Time    // from then on the message is dropped; zero for never

	asked  asked         // the question that the message asks, or nil
	ticket uint64        // which of the questions that asked stood for
	taken  atomic.Uint64 // one more than ticket when the message has left the mailbox
}

// asked is a question whose reply may turn out never to come.
type asked interface {
	abandon(ticket uint64, by Address, cause error)
}

// Chunk sizes: the first chunk of a mailbox is small because there may be a
// million idle actors; the others are large because a busy one should rarely
// change chunks. Large chunks are shared among the actors of one message type.
const (
	smallChunk      = 4
	largeChunkBytes = 4096
	leastLargeChunk = 16
)

// chunk is a part of a mailbox: filled once from the front, read once from the front.
type chunk[M any] struct {
	slots []envelope[M] // len: how many are filled
	next  *chunk[M]
}

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
	chunks   sync.Pool // of *chunk[M], large and empty
	landings sync.Pool // of *landing[M]
	asks     askPools
}

func newTypeState[M any](n *Node) *typeState[M] {
	b := &typeState[M]{node: n}
	size := max(leastLargeChunk, largeChunkBytes/int(reflect.TypeFor[envelope[M]]().Size()))
	b.chunks.New = func() any { return &chunk[M]{slots: make([]envelope[M], 0, size)} }
	return b
}

// release takes back a chunk that was read to its end.
func (b *typeState[M]) release(c *chunk[M]) {
	if !c.small() {
		b.chunks.Put(c)
	}
}

// queue is the user part of a mailbox: a chain of chunks. The owner's mutex
// guards it. Readers take whole chunks, so a busy reader seldom meets a writer.
type queue[M any] struct {
	head, tail *chunk[M]
	spare      *chunk[M] // an empty chunk for the next grow, or nil
	n          int       // messages in the chain
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

// take removes the first chunk.
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

// giveBack keeps c, read to its end and cleared, for the next grow, or gives it
// to the type.
func (q *queue[M]) giveBack(b *typeState[M], c *chunk[M]) {
	c.slots = c.slots[:0]
	if q.spare == nil {
		q.spare = c
		return
	}
	b.release(c)
}

// rest is called when the actor becomes idle: it keeps a small chunk at most.
func (q *queue[M]) rest(b *typeState[M]) {
	if q.spare != nil && !q.spare.small() {
		b.release(q.spare)
		q.spare = nil
	}
}

// express is the part of a mailbox that goes before user messages. Most actors
// have none at most times. The owner's mutex guards it.
type express[M any] struct {
	signals []signal // exits and requests to end, which go before all messages
	urgent  []envelope[M]
	system  []envelope[M]
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

// shift removes the first element of a queue in a slice.
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

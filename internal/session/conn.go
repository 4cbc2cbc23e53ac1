package session

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Sizes of what is written.
const (
	batchSize = 64 << 10  // bytes that are written at once, or as many as small frames have
	backlog   = 128 << 10 // bytes of small frames beyond which [Conn.Throttle] waits
	maxKeep   = 256 << 10 // a buffer that has become larger is not kept
)

// PieceSize is the size of a large message's pieces, in bytes, which are sent in turn with those of
// others. One piece of a call of which nothing is outstanding needs no credit of the session.
const PieceSize = 32 << 10

// manyCalls is how many calls are under way when [Conn.PostAmong] gathers. Among fewer, it
// costs more time than it saves writes.
const manyCalls = 9

// DefaultKeepAlive is the time between two signs of life, unless options say otherwise.
const DefaultKeepAlive = 15 * time.Second

// Causes of the end of a connection.
var (
	ErrClosed = errors.New("the session was closed")
	ErrSilent = errors.New("the other side gave no sign of life")
)

// Options configure [New]. Nil and zero fields mean the defaults.
type Options struct {
	// KeepAlive is the time without a frame after which the other side is asked for a sign
	// of life; after as long again the connection is closed. 0 means [DefaultKeepAlive].
	KeepAlive time.Duration
}

// Conn is one end of a connection. See the package comment.
type Conn struct {
	net     net.Conn
	attempt *attempt // nil: only the writer writes; used by the one that has set mu.writing

	reads    atomic.Uint64 // reads that brought something
	inBytes  atomic.Uint64
	outBytes atomic.Uint64

	done    chan struct{} // closed when the connection has failed or was closed
	ended   chan struct{} // closed when the writer has ended
	every   time.Duration
	beating *time.Timer
	beats   struct { // the timer's own
		reads uint64
		asked bool
	}

	work *sync.Cond // of mu: there is something to write, or the end
	less *sync.Cond // of mu: the backlog has become shorter, or the end
	mu   struct {
		sync.Mutex
		small   []byte     // whole frames, to be written next
		batch   []byte     // memory of what is being written
		rest    []byte     // of batch: it could not be written without waiting
		queue   []*message // larger messages, the one whose turn it is first
		credit  int64      // bytes of the session
		window  Windows    // of the other side
		pong    bool       // is to be sent
		writing bool       // by somebody; Invariant: only that one touches batch and rest
		asleep  bool       // the writer is
		gathers bool       // a call of PostAmong is going to flush
		err     error      // why done is closed
	}
}

// New returns an end of a connection, whose writer runs until Close. w are the windows of
// the other side, until its Hello says more.
func New(c net.Conn, w Windows, o *Options) *Conn {
	s := &Conn{net: c, attempt: newAttempt(c), done: make(chan struct{}), ended: make(chan struct{}), every: DefaultKeepAlive}
	if o != nil && o.KeepAlive > 0 {
		s.every = o.KeepAlive
	}
	s.work, s.less = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	s.mu.window, s.mu.credit = w, int64(w.Session)
	go s.write()
	s.mu.Lock()
	s.beating = time.AfterFunc(s.every, s.beat)
	s.mu.Unlock()
	return s
}

// SetWindows sets the windows of the other side. No message may have been sent before.
func (c *Conn) SetWindows(w Windows) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.window, c.mu.credit = w, int64(w.Session)
}

// Done is closed when the connection has ended; [Conn.Err] says why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended, nil if it has not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// Bytes returns how many bytes came and went.
func (c *Conn) Bytes() (in, out uint64) { return c.inBytes.Load(), c.outBytes.Load() }

// Close ends the connection with a cause, unless it has one. It waits for nothing.
func (c *Conn) Close(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked(cause)
}

// Wait waits until the writer of a closed connection has ended.
func (c *Conn) Wait() { <-c.ended }

func (c *Conn) closeLocked(cause error) {
	if c.mu.err != nil {
		return
	}
	c.mu.err = cause
	close(c.done)
	c.beating.Stop()
	_ = c.net.Close() // nothing is left to send; it also frees the writer
	c.mu.queue = nil
	c.work.Signal()
	c.less.Broadcast()
}

// Queue appends whole frames that go first. Flush sends them.
func (c *Conn) Queue(frames []byte) {
	c.mu.Lock()
	c.mu.small = append(c.mu.small, frames...)
	c.mu.Unlock()
}

// Post queues frames and flushes.
func (c *Conn) Post(frames []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.small = append(c.mu.small, frames...)
	c.flushLocked()
}

// PostAmong is Post for one of so many calls under way. Among many, others are about to post,
// too, for one commit of the log answers many calls, and one read brings many answers: it lets
// them run first, and sends with one write what all of them have queued. Where goroutines that
// compute keep all processors busy, it waits for its turn as one does that the network wakes.
func (c *Conn) PostAmong(calls int, frames []byte) {
	if calls < manyCalls {
		c.Post(frames)
		return
	}
	c.mu.Lock()
	c.mu.small = append(c.mu.small, frames...)
	first := !c.mu.gathers
	c.mu.gathers = true
	c.mu.Unlock()
	if !first {
		return
	}
	runtime.Gosched()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.gathers = false
	c.flushLocked()
}

// Flush sends what is queued, or has it sent. It does not wait.
func (c *Conn) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushLocked()
}

// Throttle waits while the other side takes nothing and much is queued for it.
func (c *Conn) Throttle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.mu.small) > backlog && c.mu.err == nil {
		c.flushLocked()
		if len(c.mu.small) > backlog {
			c.less.Wait()
		}
	}
}

// flushLocked makes one attempt to write. It gives up the lock meanwhile.
func (c *Conn) flushLocked() {
	if c.mu.writing || c.mu.err != nil || !c.dueLocked() {
		return
	}
	if c.attempt == nil {
		c.wakeLocked()
		return
	}
	c.mu.writing = true
	b := c.takeLocked()
	c.mu.Unlock()
	n, err := c.attempt.try(b)
	c.mu.Lock()
	c.wroteLocked(b, n, err)
	if c.dueLocked() {
		c.wakeLocked()
	}
}

// wroteLocked notes that the first n bytes of b have been written.
func (c *Conn) wroteLocked(b []byte, n int, err error) {
	c.mu.writing = false
	c.outBytes.Add(uint64(n)) //nolint:gosec // not negative
	if err != nil {
		c.closeLocked(err)
		return
	}
	c.mu.rest = b[n:]
	if len(c.mu.rest) == 0 && cap(c.mu.batch) > maxKeep {
		c.mu.batch = nil
	}
}

// wakeLocked wakes the writer.
func (c *Conn) wakeLocked() {
	if c.mu.asleep {
		c.mu.asleep = false
		c.work.Signal()
	}
}

// write is the writer: it writes what could not be written without waiting.
func (c *Conn) write() {
	defer close(c.ended)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for c.mu.err == nil && (c.mu.writing || !c.dueLocked()) {
			c.mu.asleep = true
			c.work.Wait()
		}
		c.mu.asleep = false
		if c.mu.err != nil {
			return
		}
		c.mu.writing = true
		b := c.takeLocked()
		c.mu.Unlock()
		n, err := c.net.Write(b)
		c.mu.Lock()
		c.wroteLocked(b, n, err)
	}
}

// beat asks the other side for a sign of life if nothing came since it ran last.
func (c *Conn) beat() {
	n := c.reads.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case n != c.beats.reads:
		c.beats.asked = false
	case c.beats.asked:
		c.closeLocked(ErrSilent)
	default:
		c.beats.asked = true
		c.mu.small = AppendFrame(c.mu.small, TypePing, 0, 0)
		c.flushLocked()
	}
	c.beats.reads = n
	if c.mu.err == nil {
		c.beating.Reset(c.every)
	}
}

// answerPing sends a Pong, one for all pings since the last.
func (c *Conn) answerPing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.pong = true
	c.flushLocked()
}

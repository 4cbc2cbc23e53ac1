package link

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

const (
	firstBuffer = 16 << 10              // bytes of a connection's buffer for what comes in
	readBuffer  = 128 << 10             // of one that has much to read: two frames
	ackDelay    = 10 * time.Millisecond // for how long an acknowledgement waits for data to go along with
	ackBytes    = 128 << 10             // how many bytes are acknowledged without such a delay
	silentBeats = 3                     // how many signs of life may be missing
	farewell    = time.Second           // for how long Close waits for the peer to read the last words
)

var (
	errReplaced = errors.New("another connection carries the stream")
	errChecksum = errors.New("a frame is not as it was sent: its checksum is wrong")
)

// conn is a connection that carries a stream: one goroutine reads it, one writes.
type conn struct {
	s   *stream
	net net.Conn // with TLS, or raw itself
	raw net.Conn

	read, written chan struct{} // closed when the goroutines have ended
	failed        chan struct{} // closed with the connection
	once          sync.Once
	leaving       atomic.Bool   // the farewell has been written
	repaid        atomic.Uint64 // bytes of the stream, handled and acknowledged to the peer

	// The stream's lock guards these.
	work   sync.Cond // the writer waits for it
	asleep bool
	closed bool
	ackDue bool   // an acknowledgement of what was handled should be sent now
	acked  uint64 // what was acknowledged last
	acking bool   // ackTimer runs
	spoke  bool   // something was written since the last beat
	bye    *frame.Farewell
	byeNow bool // it waits no longer for what is being handled
	acks   *time.Timer
	beats  *time.Timer

	// The reader's own.
	deadline  time.Time // when the read deadline was set
	lastAcked uint64    // the last acknowledgement of the peer
	inflate   decompressor

	// The writer's own.
	batch   []outFrame
	bufs    net.Buffers
	spare   [][]byte
	control []byte
	deflate compressor
}

func newConn(s *stream, nc, raw net.Conn) *conn {
	c := &conn{s: s, net: nc, raw: raw, read: make(chan struct{}), written: make(chan struct{}), failed: make(chan struct{})}
	c.work.L = &s.mu
	return c
}

// attach lets a connection carry the stream, in the place of the one that did. taken
// is the last frame that the peer has of it.
func (s *stream) attach(nc, raw net.Conn, taken uint64) error {
	s.join.Lock()
	defer s.join.Unlock()
	s.mu.Lock()
	past := s.conn
	s.mu.Unlock()
	if past != nil {
		past.fail(errReplaced)
	}
	s.mu.Lock()
	past = s.past
	s.mu.Unlock()
	if past != nil {
		<-past.written
	}
	return s.begin(newConn(s, nc, raw), past, taken)
}

// begin makes c the connection of the stream after past, whose writer has ended.
func (s *stream) begin(c, past *conn, taken uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return s.ended
	}
	if s.p.leaving.Load() { // sayBye has looked for a connection, and found none
		return ErrClosed
	}
	if err := s.out.rewind(taken); err != nil {
		return err
	}
	if past != nil {
		s.reconnects++
	}
	s.giveUp.Stop()
	s.conn, s.past, s.began = c, c, time.Now()
	c.acks = time.AfterFunc(ackDelay, c.ackNow)
	c.acks.Stop()
	c.beats = time.AfterFunc(s.p.e.o.KeepAlive, c.beat)
	s.p.running.Add(2)
	go c.write()
	go c.readAfter(past)
	return nil
}

// fail ends the connection. The stream waits for another one.
func (c *conn) fail(err error) {
	c.once.Do(func() {
		_ = c.raw.Close() // TLS would wait to say so
		close(c.failed)
		s := c.s
		s.mu.Lock()
		c.closed = true
		c.acks.Stop()
		c.beats.Stop()
		c.work.Broadcast()
		current := s.conn == c
		if current {
			s.conn, s.lostAt = nil, time.Now()
		}
		live := current && s.ended == nil
		if live {
			s.giveUp.Reset(s.p.e.o.Resume)
		}
		s.mu.Unlock()
		if live {
			s.p.lostConnection(s, err)
		}
	})
}

// ackNow is called when an acknowledgement has waited long enough.
func (c *conn) ackNow() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.acking = false
	if c.acked < c.s.handled.Load() {
		c.hurry()
	}
}

// hurry makes the writer send an acknowledgement.
func (c *conn) hurry() {
	c.ackDue = true
	c.s.ring()
}

// beat gives a sign of life if there has been none for a while.
func (c *conn) beat() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.closed {
		return
	}
	if !c.spoke {
		c.s.out.trim()
		c.hurry()
	}
	c.spoke = false
	c.beats.Reset(c.s.p.e.o.KeepAlive)
}

// broken is an error of the bytes of a connection, which another may heal.
func (c *conn) broken(err error) error {
	return fmt.Errorf("bytes of %s were changed on the way: %w", c.net.RemoteAddr(), err)
}

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
	firstBuffer = 16 << 10              // bytes of the read buffer of a new connection
	readBuffer  = 128 << 10             // bytes it grows to when it is full: two frames
	ackDelay    = 10 * time.Millisecond // how long an acknowledgement waits for a data frame that carries it
	ackBytes    = 128 << 10             // handled bytes after which one is sent at once (see newStream)
	silentBeats = 3                     // Options.KeepAlive times this is the read deadline
	farewell    = time.Second           // how long Close waits for the peer to read the farewells
)

var (
	errReplaced = errors.New("another connection carries the stream")
	errChecksum = errors.New("a frame is not as it was sent: its checksum is wrong")
)

// conn is a connection that carries a stream: one goroutine reads it, one writes. It ends with the
// first error of either, or when another connection takes its place.
//
// Acknowledgements: every frame that is written carries the number of the last handled frame. If
// there are no data to write, an acknowledgement is written by itself: after ackDelay, at once when
// stream.ackAfter bytes were handled since the last one, and as a sign of life when nothing was
// written between two beats.
type conn struct {
	s   *stream
	net net.Conn // with TLS, or raw itself
	raw net.Conn

	read, written chan struct{} // closed when the reader, and when the writer, has ended
	failed        chan struct{} // closed when the connection is
	once          sync.Once     // of fail
	leaving       atomic.Bool   // the farewell has been written: the read deadline stays
	repaid        atomic.Uint64 // stream.handledBytes at the last acknowledgement

	// The stream's lock guards these.
	work   sync.Cond       // the writer waits for it
	asleep bool            // the writer waits
	closed bool            // set by fail
	ackDue bool            // an acknowledgement is to be written although there may be no data
	acked  uint64          // number of the last frame acknowledged to the peer over this connection
	acking bool            // acks runs
	spoke  bool            // something was written since the last beat
	bye    *frame.Farewell // to be written as the last frame, nil: none
	byeNow bool            // bye does not wait for the handler
	acks   *time.Timer     // calls ackNow, ackDelay after the first handled frame
	beats  *time.Timer     // calls beat, every Options.KeepAlive

	// Only the reader uses these.
	deadline  time.Time // when the read deadline was set
	lastAcked uint64    // the last acknowledgement of the peer
	inflate   decompressor

	// Only the writer uses these, to avoid allocations.
	batch   []outFrame
	bufs    net.Buffers // of one flush; WriteTo consumes it
	spare   [][]byte    // the memory of bufs
	control []byte      // an acknowledgement or a farewell
	deflate compressor
}

func newConn(s *stream, nc, raw net.Conn) *conn {
	c := &conn{s: s, net: nc, raw: raw, read: make(chan struct{}), written: make(chan struct{}), failed: make(chan struct{})}
	c.work.L = &s.mu
	return c
}

// attach makes a connection carry the stream, in place of the one before. taken is the number of
// the last frame that the peer has received. The steps:
//
//  1. Fail the connection before, and wait for its writer, which may still use frames of the outbox.
//  2. Rewind the outbox, and start the new writer.
//  3. Start the new reader. It waits for the reader before, which may be in the handler, so that the
//     stream has one reader at a time (see readAfter).
//
// It returns an error if the session has ended or is leaving, or if taken cannot be.
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

// fail closes the connection; only the first call has an effect. If the session goes on, the stream
// waits for another connection, at most for Options.Resume. The caller must not have the lock.
func (c *conn) fail(err error) {
	c.once.Do(func() {
		_ = c.raw.Close() // closing c.net would write a TLS alert, which may block
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

// ackNow is called when an acknowledgement has waited for ackDelay.
func (c *conn) ackNow() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.acking = false
	if c.acked < c.s.handled.Load() {
		c.hurry()
	}
}

// hurry makes the writer write an acknowledgement at once. The caller has the lock.
func (c *conn) hurry() {
	c.ackDue = true
	c.s.ring()
}

// beat makes the writer write a sign of life if nothing was written since the last beat. Then it
// also releases memory of the outbox that is not in use.
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

// broken is the error of a frame that was damaged on its way. It ends the connection and not the
// session: the next connection brings the frame again.
func (c *conn) broken(err error) error {
	return fmt.Errorf("bytes of %s were changed on the way: %w", c.net.RemoteAddr(), err)
}

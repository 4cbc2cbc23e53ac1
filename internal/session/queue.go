package session

import (
	"context"
	"encoding/binary"
)

// ProgressSize is the number of bytes of a message between two calls of [Flow].Progress.
const ProgressSize = 256 << 10

// Flow is the credit of one direction of a call. The zero Flow is that of a call of which
// nothing has been sent. All but Progress is guarded by the lock of the Conn.
type Flow struct {
	// Progress, unless nil, is called by [Conn.Send], on its goroutine, when [ProgressSize] more bytes
	// of the message were taken, and others remain. It is called once if several times as many were taken
	// meanwhile. It must not change while Send runs.
	Progress func()

	used  int64 // bytes sent beyond what the other side gave back; ≥ 0
	more  int64 // given beyond the window
	begun bool  // a message was given to Send
}

// message is one that is sent in pieces.
type message struct {
	flow  *Flow
	kind  Type
	flags Flags // of the last piece
	call  uint64
	head  []byte // before the first piece
	body  []byte
	at    int           // bytes of body sent
	begun bool          // the first piece was taken
	done  chan struct{} // gets an element when the last piece was taken

	progress chan struct{} // has an element when ProgressSize more bytes were taken; nil: nobody asks
}

// left returns the credit that f has.
func (c *Conn) leftLocked(f *Flow) int64 { return int64(c.mu.window.Call) + f.more - f.used }

// sendableLocked returns how many bytes m may send now, -1 if not even an empty piece.
func (c *Conn) sendableLocked(m *message) int {
	rest := len(m.body) - m.at
	if rest == 0 {
		return 0
	}
	n := min(int64(rest), PieceSize, c.leftLocked(m.flow))
	if m.flow.used > 0 {
		n = min(n, c.mu.credit)
	}
	if n <= 0 {
		return -1
	}
	return int(n)
}

// Covers reports whether the credit is there for a message of n bytes that begins its
// direction of a call. Credit for the rest comes by [Reader.Next] and [Conn.Credit].
func (c *Conn) Covers(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(n) <= min(int64(c.mu.window.Call), c.mu.credit)
}

// chargeLocked takes n bytes off the credit of a call and of the session.
func (c *Conn) chargeLocked(f *Flow, n int) {
	f.used += int64(n)
	c.mu.credit -= int64(n)
}

// dueLocked reports whether there is something that may be written.
func (c *Conn) dueLocked() bool {
	if len(c.mu.rest) > 0 || len(c.mu.small) > 0 || c.mu.pong {
		return true
	}
	for _, m := range c.mu.queue {
		if c.sendableLocked(m) >= 0 {
			return true
		}
	}
	return false
}

// takeLocked returns what to write next, which belongs to the writer.
func (c *Conn) takeLocked() []byte {
	if len(c.mu.rest) > 0 {
		return c.mu.rest
	}
	b, empty := c.mu.small, c.mu.batch[:0]
	if len(b) > backlog {
		c.less.Broadcast()
	}
	if c.mu.pong {
		c.mu.pong = false
		b = AppendFrame(b, TypePong, 0, 0)
	}
	for tried := 0; tried < len(c.mu.queue) && len(b) < batchSize; tried++ {
		m := c.mu.queue[0]
		copy(c.mu.queue, c.mu.queue[1:])
		c.mu.queue[len(c.mu.queue)-1] = m
		n := c.sendableLocked(m)
		if n < 0 {
			continue
		}
		tried = -1 // it may be somebody's turn again
		c.chargeLocked(m.flow, n)
		if b = m.appendPiece(b, n); m.at == len(m.body) {
			c.mu.queue[len(c.mu.queue)-1] = nil
			c.mu.queue = c.mu.queue[:len(c.mu.queue)-1]
			m.done <- struct{}{}
		}
	}
	c.mu.batch, c.mu.small = b, empty
	return b
}

// appendPiece appends a frame with the next n bytes.
func (m *message) appendPiece(b []byte, n int) []byte {
	at := len(b)
	kind, flags := m.kind, Flags(0)
	if m.begun {
		kind = TypeData
	} else {
		flags = First
	}
	if m.at+n == len(m.body) {
		flags |= Last | m.flags&End
	}
	b = appendHeader(b, kind, flags, m.call)
	if !m.begun {
		b = append(b, m.head...)
		if kind == TypeData && flags&Last == 0 {
			b = binary.BigEndian.AppendUint32(b, uint32(len(m.body))) //nolint:gosec // at most maxMessage
		}
	}
	b = append(b, m.body[m.at:m.at+n]...)
	if m.progress != nil && m.at/ProgressSize != (m.at+n)/ProgressSize && m.at+n < len(m.body) {
		select {
		case m.progress <- struct{}{}:
		default: // Send has not noticed the one before
		}
	}
	m.at, m.begun = m.at+n, true
	return SealFrame(b, at)
}

// Send sends a message of a call: the request after head for TypeCall, or one of its
// answers for TypeData; End says that nothing follows. It returns when all of it is on its
// way: at once if there is credit, else when the other side has given some. If ctx ends
// first, a part may have been sent, and begun says so: the call must then be ended.
func (c *Conn) Send(ctx context.Context, t Type, f Flags, call uint64, head, body []byte, flow *Flow) (begun bool, err error) {
	c.mu.Lock()
	if err := c.mu.err; err != nil {
		c.mu.Unlock()
		return false, err
	}
	if c.sendSmallLocked(t, f, call, head, body, flow) {
		c.mu.Unlock()
		return true, nil
	}
	if len(body) > maxMessage {
		c.mu.Unlock()
		return false, Violation("a message has %d bytes", len(body))
	}
	flow.begun = true
	m := &message{flow: flow, kind: t, flags: f, call: call, head: head, body: body, done: make(chan struct{}, 1)}
	if flow.Progress != nil && len(body) > ProgressSize {
		m.progress = make(chan struct{}, 1)
	}
	c.mu.queue = append(c.mu.queue, m)
	c.flushLocked()
	c.mu.Unlock()
	for {
		select {
		case <-m.done:
			return true, nil
		case <-m.progress:
			flow.Progress()
		case <-ctx.Done():
			return c.giveUp(m), ctx.Err()
		case <-c.done:
			return c.giveUp(m), c.Err()
		}
	}
}

// sendSmallLocked sends a message that need not wait for a turn.
func (c *Conn) sendSmallLocked(t Type, f Flags, call uint64, head, body []byte, flow *Flow) bool {
	if len(body) > SmallMessage {
		return false
	}
	if f&End == 0 || flow.begun { // it is not all there is
		if n := int64(len(body)); n > c.leftLocked(flow) || flow.used > 0 && n > c.mu.credit {
			return false
		}
		c.chargeLocked(flow, len(body))
	}
	flow.begun = true
	c.mu.small = AppendFrame(c.mu.small, t, First|Last|f, call, head, body)
	c.flushLocked()
	return true
}

// giveUp takes a message out of the queue, and returns whether a part of it was taken.
func (c *Conn) giveUp(m *message) (begun bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, q := range c.mu.queue {
		if q == m {
			c.mu.queue = append(c.mu.queue[:i], c.mu.queue[i+1:]...)
			break
		}
	}
	return m.begun
}

// Credit gives n bytes to a call, or to the session if flow is nil.
func (c *Conn) Credit(flow *Flow, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if flow == nil {
		c.mu.credit = min(c.mu.credit+n, 1<<31)
	} else {
		back := min(n, flow.used)
		flow.used -= back
		flow.more = min(flow.more+n-back, maxMessage)
	}
	if len(c.mu.queue) > 0 && !c.mu.writing {
		c.wakeLocked() // large pieces: not the reader's work
	}
}

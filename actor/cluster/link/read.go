package link

import (
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// readAfter is the reader's goroutine. It gives the messages of the peer to the handler, once the
// reader of the connection before has ended and Handler.Up has returned.
func (c *conn) readAfter(past *conn) {
	defer c.s.p.running.Done()
	defer close(c.read)
	if past != nil {
		<-past.read
	}
	<-c.s.p.up
	err := c.readAll()
	c.fail(err)
}

// readAll reads frames until the connection fails, a frame is damaged, the peer breaks the protocol,
// or its farewell has come.
func (c *conn) readAll() error {
	buf := make([]byte, firstBuffer)
	from, to := 0, 0
	for {
		n, err := c.takeFrames(buf[from:to])
		if err != nil {
			return err
		}
		buf, from, to = makeRoom(buf, from+n, to)
		c.scheduleAck()
		if err := c.extendDeadline(); err != nil {
			return err
		}
		n, err = c.net.Read(buf[to:])
		to += n
		if err != nil {
			_, _ = c.takeFrames(buf[from:to]) // whole frames that came with the error count
			return err
		}
	}
}

// makeRoom returns a buffer with the bytes buf[from:to], and their new place in it. There is room to
// read behind them: the buffer grows once, from firstBuffer to readBuffer, when a read has filled it;
// the bytes move to its front when the largest frame would not fit behind from.
func makeRoom(buf []byte, from, to int) ([]byte, int, int) {
	if to == len(buf) && len(buf) < readBuffer {
		grown := make([]byte, readBuffer)
		return grown, 0, copy(grown, buf[from:to])
	}
	if from == to {
		return buf, 0, 0
	}
	if len(buf)-from < segmentSize {
		return buf, 0, copy(buf, buf[from:to])
	}
	return buf, from, to
}

// extendDeadline sets the read deadline to silentBeats times Options.KeepAlive from now. It does so
// at most twice per KeepAlive, to be cheap. After the farewell it does nothing.
func (c *conn) extendDeadline() error {
	every := c.s.p.e.o.KeepAlive
	now := time.Now()
	if c.leaving.Load() || now.Sub(c.deadline) < every/2 {
		return nil
	}
	c.deadline = now
	return c.net.SetReadDeadline(now.Add(silentBeats * every))
}

// takeFrames handles the complete frames at the front of buf, and returns their size.
func (c *conn) takeFrames(buf []byte) (int, error) {
	taken := 0
	for len(buf)-taken >= frame.HeaderSize {
		rest := buf[taken:]
		h, err := frame.ParseHeader(rest)
		if err != nil {
			return taken, c.broken(err)
		}
		size := frame.HeaderSize + int(h.Length)
		if len(rest) < size {
			return taken, nil
		}
		if !h.Check(rest[:size]) {
			return taken, c.broken(errChecksum)
		}
		if err := c.takeFrame(h, rest[:size:size]); err != nil {
			return taken, err
		}
		taken += size
	}
	return taken, nil
}

// takeFrame handles the acknowledgement of a frame, then its content. whole is the frame with its
// header, checked.
func (c *conn) takeFrame(h frame.Header, whole []byte) error {
	s := c.s
	s.takenBytes.Add(uint64(len(whole)))
	if h.Ack != c.lastAcked {
		c.lastAcked = h.Ack
		if err := s.acknowledged(h.Ack); err != nil {
			return s.p.violation(err)
		}
	}
	switch h.Type {
	case frame.Data:
		return c.takeData(h, whole[frame.HeaderSize:])
	case frame.Bye:
		f, err := frame.ParseFarewell(whole[frame.HeaderSize:])
		if err != nil {
			return s.p.violation(err)
		}
		return s.p.dismissed(s, f)
	}
	return nil
}

// takeData gives the messages of a data frame to the handler, unless it came before. It is a
// violation if a numbered frame is missing.
func (c *conn) takeData(h frame.Header, payload []byte) error {
	s := c.s
	taken := s.taken.Load()
	switch {
	case h.Number == 0:
	case h.Number <= taken:
		return nil // it came over an earlier connection
	case h.Number > taken+1:
		return s.p.violation(fmt.Errorf("frame %d follows %d", h.Number, taken))
	}
	if h.Compression != 0 {
		var err error
		if payload, err = c.inflate.payload(Compression(h.Compression), payload, int(h.Size)); err != nil {
			return s.p.violation(err)
		}
	}
	if s.p.hasEnded() {
		return s.p.over()
	}
	if h.Number != 0 {
		s.taken.Store(h.Number)
	}
	if err := c.deliver(payload); err != nil {
		return s.p.violation(err)
	}
	if h.Number != 0 {
		s.handled.Store(h.Number)
		if s.p.leaving.Load() { // the farewell may wait for this
			s.mu.Lock()
			s.ring()
			s.mu.Unlock()
		}
		unreported := s.handledBytes.Add(uint64(h.Size)) - c.repaid.Load()
		if unreported >= s.ackAfter {
			s.mu.Lock()
			c.hurry()
			s.mu.Unlock()
		}
	}
	return nil
}

// deliver calls the handler with each message of a payload, and returns when all calls have.
func (c *conn) deliver(payload []byte) error {
	p := c.s.p
	h := p.e.handler
	n := uint64(0)
	entries := frame.ParseEntries(payload)
	for {
		e, ok := entries.Next()
		if !ok {
			break
		}
		body := e.Body
		if e.Flags > frame.SameLane {
			var whole bool
			var err error
			if body, whole, err = c.s.parts.add(e, p.e.o.MaxMessage); err != nil {
				return err
			} else if !whole {
				continue
			}
		}
		h.Message(p, e.Lane, body)
		n++
	}
	c.s.takenMessages.Add(n)
	return entries.Err()
}

// scheduleAck starts the timer of the acknowledgement, if handled frames are unacknowledged.
func (c *conn) scheduleAck() {
	s := c.s
	if s.handledBytes.Load() == c.repaid.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.acking && !c.closed && c.acked < s.handled.Load() {
		c.acking = true
		c.acks.Reset(ackDelay)
	}
}

// parts assembles the large message of a stream. It outlives connections.
type parts struct {
	body []byte // of the parts so far; its memory is used again
}

// keptParts is the largest buffer, in bytes, that is used again for the next large message.
const keptParts = 1 << 20

// add adds a part. It returns the message, of at most limit bytes, when the part is the last. The
// message is valid until the next call. A void part drops the message.
func (p *parts) add(e frame.Entry, limit int) (body []byte, whole bool, err error) {
	switch {
	case e.Flags&frame.Void != 0:
		p.reset()
		return nil, false, nil
	case len(e.Body) > limit-len(p.body):
		return nil, false, fmt.Errorf("a message has more than %d bytes", limit)
	}
	p.body = append(p.body, e.Body...)
	if e.Flags&frame.More != 0 {
		return nil, false, nil
	}
	body = p.body
	p.reset()
	return body, true, nil
}

// reset begins the next message. It does not keep a buffer larger than keptParts.
func (p *parts) reset() {
	if p.body = p.body[:0]; cap(p.body) > keptParts {
		p.body = nil
	}
}

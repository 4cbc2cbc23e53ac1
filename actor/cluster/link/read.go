package link

import (
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// readAfter is the reader: it gives what comes in to the handler, after the reader of
// the connection before has given it the last of its messages.
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
			_, _ = c.takeFrames(buf[from:to]) // what has come is not lost with the connection
			return err
		}
	}
}

// makeRoom returns a buffer with buf[from:to] and room for the rest of a frame, or for as
// much as a connection needs that has little to read.
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

// extendDeadline lets the connection be silent for a while longer. It is cheap
// because it seldom does.
func (c *conn) extendDeadline() error {
	every := c.s.p.e.o.KeepAlive
	now := time.Now()
	if c.leaving.Load() || now.Sub(c.deadline) < every/2 {
		return nil
	}
	c.deadline = now
	return c.net.SetReadDeadline(now.Add(silentBeats * every))
}

// takeFrames takes the whole frames at the front of buf, and returns their size.
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

// takeFrame does what a frame says.
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

func (c *conn) takeData(h frame.Header, payload []byte) error {
	s := c.s
	taken := s.taken.Load()
	switch {
	case h.Number == 0:
	case h.Number <= taken:
		return nil // it came over the connection before
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

// deliver gives the messages of a payload to the handler.
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

// scheduleAck sees to it that what was handled is acknowledged before long.
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

// parts puts the parts of a large message of a stream together.
type parts struct {
	body []byte
	some bool
}

// keptParts is how large a buffer for parts may be to be kept for the next message.
const keptParts = 1 << 20

// add returns the message when its last part has come. It is valid until the next call.
func (p *parts) add(e frame.Entry, limit int) (body []byte, whole bool, err error) {
	if !p.some {
		if p.body = p.body[:0]; cap(p.body) > keptParts {
			p.body = nil
		}
		p.some = true
	}
	switch {
	case e.Flags&frame.Void != 0:
		p.some = false
		return nil, false, nil
	case len(e.Body) > limit-len(p.body):
		return nil, false, fmt.Errorf("a message has more than %d bytes", limit)
	}
	p.body = append(p.body, e.Body...)
	if e.Flags&frame.More != 0 {
		return nil, false, nil
	}
	p.some = false
	return p.body, true, nil
}

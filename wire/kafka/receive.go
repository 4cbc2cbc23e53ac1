package kafka

import (
	"io"
	"time"
)

// A request is read in steps, so that a client that announces a large request and sends
// nothing of it takes little memory:
//
//  1. Reserve the size of the request, but at most freeFrame, or as much as the largest
//     request that the connection has received, up to trustedFrame.
//  2. Read until the reserved bytes are full.
//  3. If the request is larger, double the reservation, copy, and continue with 2.
//
// Invariant: the bytes reserved are at most twice the bytes received, or those of step 1.

const (
	// freeFrame is the size in bytes up to which a request gets memory at once, without a
	// reservation: the limit of connections bounds these.
	freeFrame = 16 << 10
	// trustedFrame is the size in bytes up to which a request gets its memory at once if the
	// connection has received a request as large before.
	trustedFrame = 2 << 20
	// slowest is the rate, in bytes a second, at which the time to read a step grows with
	// its size. Options.WriteTimeout is added to that time.
	slowest = 32 << 10
)

// receive reads a request of size bytes, without the size. The frame is from getBuffer; its
// memory is reserved in c.request. An error ends the connection.
func (c *conn) receive(size int) ([]byte, error) {
	var frame []byte
	reserved, got := min(size, max(freeFrame, c.trust)), 0
	for {
		if err := c.take(reserved); err != nil {
			return nil, err
		}
		larger := append(getBuffer(reserved), frame...)[:reserved]
		putBuffer(frame)
		frame = larger
		_ = c.deadline(c.s.o.WriteTimeout + time.Duration(reserved-got)*time.Second/slowest)
		if err := c.readFull(frame[got:]); err != nil {
			return nil, err
		}
		if got = reserved; got == size {
			c.trust = max(c.trust, min(size, trustedFrame))
			return frame, nil
		}
		reserved = min(size, 2*reserved)
	}
}

// readFull fills p with bytes of a request. The connection may be recalled meanwhile.
func (c *conn) readFull(p []byte) error {
	c.setSlow(true)
	defer c.setSlow(false)
	defer c.request.OnRecall(nil, nil)
	for len(p) > 0 {
		c.progress(&c.request)
		n, err := io.ReadFull(c.in, p[:min(len(p), ioChunk)])
		if err != nil {
			return c.unlessRecalled(err)
		}
		p = p[n:]
	}
	return nil
}

package kafka

import (
	"io"
	"time"
)

const (
	// freeFrame is the size up to which a request gets memory at once, and is not
	// counted: the number of connections bounds that.
	freeFrame = 16 << 10
	// trustedFrame is the size up to which a request gets memory at once from a client
	// that has sent a request as large before.
	trustedFrame = 2 << 20
	// slowest is how many bytes a second a client must send of a request.
	slowest = 32 << 10
)

// receive reads a request. Its memory grows with what is here, to no more than twice
// that, and is taken from the budget before the bytes are read: a client that announces
// much and sends nothing costs next to nothing, and one that is slow what it has sent.
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

// readFull reads as much of a request as fits into p.
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

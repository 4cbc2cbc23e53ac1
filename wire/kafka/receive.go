package kafka

import (
	"context"
	"fmt"
	"io"
	"sync"
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
// that: a client that announces much and sends nothing costs next to nothing, and one
// that is slow what it has sent.
func (c *conn) receive(size int, held *hold) ([]byte, error) {
	var frame []byte
	room, got := min(size, max(freeFrame, c.trust)), 0
	for {
		if err := c.s.inFlight.take(c.s, room, held); err != nil {
			return nil, err
		}
		larger := append(getBuffer(room), frame...)[:room]
		putBuffer(frame)
		frame = larger
		_ = c.deadline(c.s.o.WriteTimeout + time.Duration(room-got)*time.Second/slowest)
		n, err := io.ReadFull(c.in, frame[got:])
		if err != nil {
			return nil, err
		}
		if got += n; got == size {
			c.trust = max(c.trust, min(size, trustedFrame))
			return frame, nil
		}
		room = min(size, 2*room)
	}
}

// memory is what the requests that are being read and served may take together. One
// request at a time may go beyond it: so those that hold part of what they need and
// wait for the rest never wait for each other for good.
type memory struct {
	mu struct {
		sync.Mutex
		free    int
		over    *hold         // goes beyond
		changed chan struct{} // closed when somebody gives back; nil: nobody waits
	}
}

func newMemory(size int) *memory {
	m := &memory{}
	m.mu.free = size
	return m
}

// hold is what one request holds.
type hold struct {
	room int // for which it has, or may take, memory
	paid int // of the memory that is shared
}

// take lets a request have room for n bytes in all. It waits until there is as much.
func (m *memory) take(s *Server, n int, h *hold) error {
	if n <= freeFrame || n <= h.room {
		return nil
	}
	var ctx context.Context
	for {
		changed, ok := m.try(n, h)
		if ok {
			return nil
		}
		if ctx == nil {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(s.ctx, s.o.WriteTimeout)
			defer cancel()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if s.ctx.Err() != nil {
				return errDrained
			}
			return fmt.Errorf("no memory for it within %s: requests of %d bytes are being served", s.o.WriteTimeout, s.o.MaxInFlight)
		}
	}
}

// try is take without waiting: if there is not enough, changed is closed when that
// may be different.
func (m *memory) try(n int, h *hold) (changed <-chan struct{}, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch more := n - h.room; {
	case m.mu.over == h:
	case more <= m.mu.free:
		m.mu.free -= more
		h.paid += more
	case m.mu.over == nil:
		m.mu.over = h
	default:
		if m.mu.changed == nil {
			m.mu.changed = make(chan struct{})
		}
		return m.mu.changed, false
	}
	h.room = n
	return nil, true
}

// give takes back what a request holds.
func (m *memory) give(h *hold) {
	if h.room == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.free += h.paid
	if m.mu.over == h {
		m.mu.over = nil
	}
	if m.mu.changed != nil {
		close(m.mu.changed)
		m.mu.changed = nil
	}
	*h = hold{}
}

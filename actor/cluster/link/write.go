package link

import (
	"runtime"
	"time"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// write is the writer: it writes what has gathered in the outbox while the last
// write was under way, again and again.
func (c *conn) write() {
	defer c.s.p.running.Done()
	defer close(c.written)
	err := c.writeAll()
	c.s.mu.Lock()
	c.s.out.stopped()
	c.s.released()
	c.s.mu.Unlock()
	if err != nil {
		c.fail(err)
	}
}

func (c *conn) writeAll() error {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for c.awaitWork() {
		c.batch = s.out.take(c.batch[:0])
		c.repaid.Store(s.handledBytes.Load())
		bye := c.bye
		if !c.byeDue() {
			bye = nil
		}
		ack := s.handled.Load()
		alone := c.ackDue && len(c.batch) == 0
		c.ackDue, c.acked, c.spoke = false, ack, true
		s.mu.Unlock()
		n, err := c.flush(ack, alone, bye)
		s.mu.Lock()
		if err != nil {
			return err
		}
		s.sentBytes += uint64(n)
		s.sentFrames += uint64(len(c.batch))
		s.out.wrote()
		s.released()
		if bye != nil {
			return c.leave()
		}
	}
	return nil
}

// awaitWork waits until there is something to write. It returns false when the
// connection is closed.
func (c *conn) awaitWork() bool {
	slept := false
	for !c.closed {
		switch {
		case !c.s.out.due() && !c.ackDue && !c.byeDue():
			c.asleep = true
			c.work.Wait()
			c.asleep = false
			slept = true
		case slept:
			// The sender of the first message may have more: they then share a write.
			slept = false
			c.s.mu.Unlock()
			runtime.Gosched()
			c.s.mu.Lock()
		default:
			return true
		}
	}
	return false
}

// byeDue reports whether the farewell may be written: what the stream has taken is handled,
// so that the farewell acknowledges it, or takes too long. The caller has the lock.
func (c *conn) byeDue() bool {
	return c.bye != nil && (c.byeNow || c.s.handled.Load() == c.s.taken.Load())
}

// flush writes the batch, and an acknowledgement or a farewell by itself.
func (c *conn) flush(ack uint64, alone bool, bye *frame.Farewell) (int64, error) {
	c.bufs = c.spare[:0]
	c.deflate.reset()
	c.control = c.control[:0]
	for i := range c.batch {
		c.add(&c.batch[i], ack)
	}
	if alone && bye == nil {
		c.control = frame.Header{Type: frame.Ack, Ack: ack}.Append(c.control, nil)
	}
	if bye != nil {
		c.control = appendBye(c.control, ack, *bye)
	}
	if len(c.control) > 0 {
		c.bufs = append(c.bufs, c.control)
	}
	c.spare = c.bufs
	if len(c.bufs) == 1 {
		n, err := c.net.Write(c.bufs[0])
		return int64(n), err
	}
	return c.bufs.WriteTo(c.net)
}

// appendBye appends the frame of a farewell.
func appendBye(dst []byte, ack uint64, f frame.Farewell) []byte {
	payload := f.Append(nil)
	h := frame.Header{Type: frame.Bye, Ack: ack, Length: uint32(len(payload)), Size: uint32(len(payload))}
	return h.Append(dst, payload)
}

// add puts a frame's header in place and the frame behind the others.
func (c *conn) add(f *outFrame, ack uint64) {
	whole := f.seg.mem[f.from:f.to]
	n := uint32(len(whole) - frame.HeaderSize)
	h := frame.Header{Type: frame.Data, Length: n, Size: n, Number: f.number, Ack: ack}
	if o := c.s.p.e.o; o.Compression != Uncompressed && int(n) >= o.CompressAbove {
		if packed := c.deflate.frame(o.Compression, h, whole[frame.HeaderSize:]); packed != nil {
			c.bufs = append(c.bufs, packed)
			return
		}
	}
	h.Put(whole)
	frame.Seal(whole)
	c.bufs = append(c.bufs, whole)
}

// leave waits, after the farewell, for the peer to close the connection: closing it
// before the peer has read everything could destroy what is on its way.
func (c *conn) leave() error {
	c.leaving.Store(true)
	return c.net.SetReadDeadline(time.Now().Add(farewell))
}

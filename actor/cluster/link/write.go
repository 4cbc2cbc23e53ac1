package link

import (
	"runtime"
	"time"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// write is the writer's goroutine. It writes, again and again, the messages that were queued in the
// outbox during the write before.
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

// writeAll takes frames with the lock and writes them without it. It returns nil after the farewell,
// and when the connection was closed.
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
			// The sender of the first message may send more. Let it run, so that they share a write.
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

// byeDue reports whether the farewell is to be written: all received frames are handled, so that the
// farewell acknowledges them, or the time for that is over. The caller has the lock.
func (c *conn) byeDue() bool {
	return c.bye != nil && (c.byeNow || c.s.handled.Load() == c.s.taken.Load())
}

// flush writes the batch, all with the acknowledgement ack, and then a farewell if there is one.
// With alone it writes a frame that is only an acknowledgement. It returns the number of bytes.
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

// appendBye appends a Bye frame, which acknowledges up to ack.
func appendBye(dst []byte, ack uint64, f frame.Farewell) []byte {
	payload := f.Append(nil)
	h := frame.Header{Type: frame.Bye, Ack: ack, Length: uint32(len(payload)), Size: uint32(len(payload))}
	return h.Append(dst, payload)
}

// add completes the header of a frame, in place, and appends the frame, or a compressed copy, to
// bufs. A frame that is written again gets a new acknowledgement.
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

// leave limits the time that the reader waits for the peer to close the connection. This end does
// not close it: the operating system could drop bytes that the peer has not read.
func (c *conn) leave() error {
	c.leaving.Store(true)
	return c.net.SetReadDeadline(time.Now().Add(farewell))
}

package ingest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// How a receiver that closes takes what the system has received already.
//
// Close cancels the context of the readers and wakes each with a deadline in the past.
// A reader that finds the context done repeats its call (Accept, Read, ReadFrom) with a
// deadline of its own, set right before the call, until several in a row pass in silence. A
// deadline that another goroutine has set proves nothing: on a busy machine it may be over
// before the reader runs, with data in the buffers of the system. One of its own proves
// little: the reader may have stood still between the two calls, or the system behind the socket.
const (
	drainQuiet = 20 * time.Millisecond // in which nothing came
	drainCalls = 5                     // in a row in which nothing came: the socket is empty
	drainLimit = 5 * time.Second       // of waiting, for a sender that sends now and then
	drainBytes = 8 << 20               // for a sender that sends without a pause: more than a socket buffers
)

// drain carries out the blocking calls on one socket. It belongs to one goroutine.
type drain struct {
	closing context.Context // done when the receiver closes
	givenUp context.Context // done when what was received and not written is given up
	waited  time.Duration   // in calls since closing, as far as they were meant to wait
	bytes   int64           // since closing
}

func (r *SyslogReceiver) newDrain() drain { return drain{closing: r.ctx, givenUp: r.w.ctx} }

// deadliner is a socket whose calls can be given a deadline.
type deadliner interface{ SetReadDeadline(time.Time) error }

// do calls f, which waits for something on the socket of set, and returns what it did.
// After the receiver has begun to close it gives os.ErrDeadlineExceeded when there is
// nothing more to take.
func (d *drain) do(set func(time.Time) error, f func() (int, error)) (int, error) {
	for silent := 0; ; {
		closing := d.closing.Err() != nil
		began := time.Now()
		if closing {
			if d.waited >= drainLimit || d.bytes >= drainBytes || d.givenUp.Err() != nil {
				return 0, os.ErrDeadlineExceeded
			}
			if err := set(began.Add(drainQuiet)); err != nil {
				return 0, err
			}
		}
		n, err := f()
		took := time.Since(began)
		if closing {
			d.waited += min(took, drainQuiet) // what is beyond is a reader that stood still
			d.bytes += int64(n)
		}
		if !isTimeout(err) || n > 0 || d.closing.Err() == nil {
			return n, err
		}
		// Else Close has woken f, with a deadline of its own.
		if closing && took >= drainQuiet {
			if silent++; silent == drainCalls {
				return n, err
			}
		}
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// wake interrupts the reader of c. One that can have no deadline is closed.
func wake(c io.Closer) {
	past := time.Unix(1, 0)
	var err error
	switch s := c.(type) {
	case deadliner:
		err = s.SetReadDeadline(past)
	case interface{ SetDeadline(time.Time) error }: // a listener
		err = s.SetDeadline(past)
	default:
		err = os.ErrNoDeadline
	}
	if err != nil {
		_ = c.Close() // its reader sees that
	}
}

// accept takes the next connection from l, while the receiver closes only those that are
// established already. A listener without deadlines is closed then.
func (d *drain) accept(l net.Listener) (conn net.Conn, err error) {
	set := func(time.Time) error { return net.ErrClosed }
	if s, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		set = s.SetDeadline
	}
	_, err = d.do(set, func() (n int, err error) {
		conn, err = l.Accept()
		return 0, err
	})
	return conn, err
}

// drainedConn is a connection whose Read goes through a drain.
type drainedConn struct {
	net.Conn
	drain
}

// Read implements io.Reader.
func (c *drainedConn) Read(p []byte) (int, error) {
	return c.do(c.SetReadDeadline, func() (int, error) { return c.Conn.Read(p) })
}

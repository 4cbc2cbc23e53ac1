package session

import (
	"io"
	"net"
)

// The memory of a reader: firstRead while little comes, as in a session that only waits,
// and up to readSize, room for the largest frame and small ones, when reads fill it.
const (
	firstRead = 1 << 10
	readSize  = MaxFrame + 16<<10
)

// Reader reads frames of a [Conn]. It belongs to one goroutine at a time.
type Reader struct {
	c        *Conn
	buf      []byte
	from, to int  // buf[from:to] came and was not returned
	filled   bool // the last read left no room: more may have been there
}

// NewReader returns a reader that begins with what came already.
func (c *Conn) NewReader(came []byte) *Reader {
	r := &Reader{c: c, buf: make([]byte, max(firstRead, len(came)))}
	r.to = copy(r.buf, came)
	r.filled = r.to == len(r.buf)
	return r
}

// Buffered reports whether the next frame is there, or what is an error anyway.
func (r *Reader) Buffered() bool {
	rest := r.buf[r.from:r.to]
	if len(rest) < HeaderSize {
		return false
	}
	size := int(rest[0])<<8 + int(rest[1])
	return size > MaxPayload || len(rest) >= HeaderSize+size
}

// Next returns the next frame that is not only for the connection itself. What was queued
// is flushed before it waits.
func (r *Reader) Next() (Header, []byte, error) {
	for {
		h, p, err := r.next()
		if err != nil {
			return h, nil, err
		}
		switch {
		case h.Type == TypePing:
			r.c.answerPing()
		case h.Type == TypePong:
		case h.Type == TypeCredit && h.Call == 0:
			n, err := ParseCredit(p)
			if err != nil {
				return h, nil, err
			}
			r.c.Credit(nil, n)
		default:
			return h, p, nil
		}
	}
}

func (r *Reader) next() (Header, []byte, error) {
	for !r.Buffered() {
		if err := r.fill(); err != nil {
			return Header{}, nil, err
		}
	}
	h, err := ParseHeader(r.buf[r.from:])
	if err != nil {
		return h, nil, err
	}
	p := r.buf[r.from+HeaderSize : r.from+HeaderSize+h.Size]
	r.from += HeaderSize + h.Size
	return h, p[:len(p):len(p)], nil
}

// fill reads more into the buffer, which grows when the read before filled it.
func (r *Reader) fill() error {
	r.makeRoom()
	r.c.Flush()
	n, err := r.c.net.Read(r.buf[r.to:])
	if n > 0 {
		r.to += n
		r.filled = r.to == len(r.buf)
		r.c.reads.Add(1)
		r.c.inBytes.Add(uint64(n))
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	if cause := r.c.Err(); cause != nil {
		return cause // and not that of the connection it closed
	}
	return err
}

func (r *Reader) makeRoom() {
	buf := r.buf
	if r.filled && len(buf) < readSize {
		buf = make([]byte, min(4*len(buf), readSize))
	} else if r.from < r.to && (r.from == 0 || len(buf)-r.to >= SmallMessage) {
		return
	}
	r.from, r.to = 0, copy(buf, r.buf[r.from:r.to])
	r.buf = buf
}

// NetConn returns the connection below.
func (c *Conn) NetConn() net.Conn { return c.net }

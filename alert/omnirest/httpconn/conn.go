package httpconn

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

// readBuffer is the buffer of a connection; no line of a head may be longer.
const readBuffer = 4 << 10

// keepWrite is the most that a connection keeps of the memory for requests.
const keepWrite = 64 << 10

// Request is what is sent. The slices are lent until Do returns.
type Request struct {
	Method string
	Path   string // below the target's, escaped, with the query
	Header []byte // complete lines that end with CR LF, besides Host and Content-Length
	Body   []byte // nil: none
}

func (r *Request) validate() error {
	if r.Method == "" || r.Path == "" || r.Path[0] != '/' || strings.ContainsAny(r.Path, " \r\n") || strings.ContainsAny(r.Method, " \r\n") {
		return mainstem.Refusef(mainstem.KindInvalid, "http", "the request %.20q %.100q: want a method and a path that begins with / and is escaped", r.Method, r.Path)
	}
	return nil
}

// Conn is one connection. It belongs to one goroutine at a time; only Close may be
// called from others, and ends what is waiting.
type Conn struct {
	target *Target
	nc     net.Conn
	raw    net.Conn // below TLS
	br     *bufio.Reader
	out    []byte
	broken atomic.Bool // Close may come from another goroutine
}

// Do sends a request and returns the head of its answer. The response before must
// be closed. Close the response; if ctx ends before, the connection is broken.
func (c *Conn) Do(ctx context.Context, r *Request) (*Response, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	if c.broken.Load() {
		return nil, failure(ctx, mainstem.NotWritten, net.ErrClosed)
	}
	if ctx.Err() != nil {
		return nil, failure(ctx, mainstem.NotWritten, ctx.Err())
	}
	stop := c.watch(ctx)
	c.compose(r)
	if _, err := c.nc.Write(c.out); err != nil {
		c.fail(stop)
		return nil, failure(ctx, mainstem.NotWritten, err)
	}
	if cap(c.out) > keepWrite {
		c.out = nil
	}
	resp := &Response{c: c, ctx: ctx, stop: stop}
	if err := c.head(resp); err != nil {
		c.fail(stop)
		if mainstem.KindOf(err) == mainstem.KindCorrupt {
			return nil, err
		}
		return nil, failure(ctx, mainstem.Unknown, err)
	}
	return resp, nil
}

// watch makes what waits on the connection return when ctx ends.
func (c *Conn) watch(ctx context.Context) (stop func() bool) {
	if ctx.Done() == nil {
		return nil
	}
	return context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(time.Unix(1, 0)) })
}

func (c *Conn) fail(stop func() bool) {
	c.broken.Store(true)
	if stop != nil {
		stop()
	}
	_ = c.Close()
}

// compose writes the request into c.out: one write, so that it is sent as a whole.
func (c *Conn) compose(r *Request) {
	b := append(c.out[:0], r.Method...)
	b = append(b, ' ')
	b = append(append(b, c.target.base...), r.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(append(b, c.target.host...), "\r\n"...)
	b = append(b, r.Header...)
	if r.Body != nil {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(r.Body)), 10)
		b = append(b, "\r\n"...)
	}
	b = append(b, "\r\n"...)
	c.out = append(b, r.Body...)
}

// Broken reports whether the connection cannot be used again.
func (c *Conn) Broken() bool { return c.broken.Load() }

// Alive reports whether the connection may be used for a request: it is not broken,
// and the server has not closed it as far as can be seen without waiting.
func (c *Conn) Alive() bool {
	return !c.broken.Load() && c.br.Buffered() == 0 && quiet(c.raw)
}

// Close closes the connection. Closing twice is allowed.
func (c *Conn) Close() error {
	c.broken.Store(true)
	return c.nc.Close()
}

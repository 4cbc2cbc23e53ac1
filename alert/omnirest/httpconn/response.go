package httpconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httputil"
	"strconv"

	"github.com/mainstemdev/mainstem"
)

// Limits of an answer.
const (
	MaxHeader = 64 << 10 // bytes of its head
	maxDrain  = 64 << 10 // bytes that Close reads so that the connection can be used again
)

// Response is an answer. It belongs to its connection until it is closed.
type Response struct {
	Status      int
	Length      int64 // of the body; -1: not known before its end
	ContentType string
	Encoding    string // Content-Encoding
	Location    string
	ETag        string
	Server      string
	Body        io.Reader

	body   bodyReader
	c      *Conn
	ctx    context.Context
	stop   func() bool
	pool   *Pool
	under  io.ReadCloser // of [Standard], which has no c
	close  bool          // the connection ends with the body
	chunks bool
	done   bool // the body was read to its end
	closed bool
}

// Close ends the answer: the connection can be used again if the body was read to its
// end, or nearly. Closing twice is allowed.
func (r *Response) Close() error {
	if r.closed {
		return nil
	}
	if r.c == nil {
		r.closed = true
		_, _ = io.CopyN(io.Discard, r.under, maxDrain)
		return r.under.Close()
	}
	if !r.done && !r.close && !r.c.broken.Load() {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrain)
	}
	r.closed = true
	if r.stop != nil && !r.stop() {
		r.c.broken.Store(true) // its deadline was moved
	}
	if !r.done || r.close {
		r.c.broken.Store(true)
	}
	if r.pool != nil {
		r.pool.put(r.c)
	} else if r.c.broken.Load() {
		_ = r.c.Close()
	}
	return nil
}

// bodyReader reads the body and notes its end.
type bodyReader struct {
	r    *Response
	src  io.Reader
	left int64 // -1: until src ends
}

func (b *bodyReader) Read(p []byte) (int, error) {
	switch {
	case b.r.closed:
		return 0, failure(b.r.ctx, mainstem.Unknown, errors.New("the answer was closed"))
	case b.left == 0 || b.r.done:
		b.r.done = true
		return 0, io.EOF
	case b.left > 0 && int64(len(p)) > b.left:
		p = p[:b.left]
	}
	n, err := b.src.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	switch {
	case b.left == 0:
		b.r.done = true
		return n, nil
	case err == io.EOF && b.left < 0:
		b.r.done = true
		if b.r.chunks {
			if err := b.r.c.trailer(b.r.ctx); err != nil {
				return n, err
			}
		}
		return n, io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		b.r.c.broken.Store(true)
		return n, failure(b.r.ctx, mainstem.Unknown, err)
	}
	return n, nil
}

// head reads the head of an answer, past any that are not final.
func (c *Conn) head(r *Response) error {
	left := MaxHeader
	for {
		if err := c.statusLine(r, &left); err != nil {
			return err
		}
		if err := c.headers(r, &left); err != nil {
			return err
		}
		if r.Status >= 200 {
			break
		}
		if r.Status == 101 {
			return mainstem.Errorf(mainstem.KindCorrupt, "http", "the server changed the protocol").WithOutcome(mainstem.Unknown)
		}
	}
	r.body = bodyReader{r: r, src: c.br, left: r.Length}
	switch {
	case r.Status == 204 || r.Status == 304:
		r.Length, r.body.left, r.done = 0, 0, true
	case r.chunks:
		r.Length, r.body.left = -1, -1
		r.body.src = httputil.NewChunkedReader(c.br)
	case r.Length < 0:
		r.close = true
	case r.Length == 0:
		r.done = true
	}
	r.Body = &r.body
	return nil
}

func (c *Conn) line(left *int) ([]byte, error) {
	line, err := c.br.ReadSlice('\n')
	if *left -= len(line); *left < 0 || err != nil && len(line) >= readBuffer {
		return nil, mainstem.Errorf(mainstem.KindCorrupt, "http", "the head of an answer has more than %d bytes, or a line more than %d", MaxHeader, readBuffer).WithOutcome(mainstem.Unknown)
	}
	if err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

func (c *Conn) statusLine(r *Response, left *int) error {
	line, err := c.line(left)
	if err != nil {
		return err
	}
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	status, err := strconv.Atoi(string(code))
	if err != nil || len(code) != 3 || status < 100 || !bytes.HasPrefix(version, []byte("HTTP/1.")) || len(version) != len("HTTP/1.1") {
		return mainstem.Errorf(mainstem.KindCorrupt, "http", "%.100q is no answer of an HTTP/1.1 server", line).WithOutcome(mainstem.Unknown)
	}
	r.Status, r.Length, r.chunks = status, -1, false
	r.close = version[len(version)-1] == '0'
	return nil
}

func (c *Conn) headers(r *Response, left *int) error {
	for {
		line, err := c.line(left)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t") {
			return mainstem.Errorf(mainstem.KindCorrupt, "http", "%.100q is no header", line).WithOutcome(mainstem.Unknown)
		}
		if err := r.header(name, bytes.TrimSpace(value)); err != nil {
			return err
		}
	}
}

func (r *Response) header(name, value []byte) error {
	is := func(want string) bool { return len(name) == len(want) && bytes.EqualFold(name, []byte(want)) }
	switch {
	case is("Content-Length"):
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < 0 || value[0] == '+' || r.Length >= 0 && r.Length != n {
			return mainstem.Errorf(mainstem.KindCorrupt, "http", "Content-Length: %.40q", value).WithOutcome(mainstem.Unknown)
		}
		r.Length = n
	case is("Transfer-Encoding"):
		if r.chunks || !bytes.EqualFold(value, []byte("chunked")) {
			return mainstem.Errorf(mainstem.KindCorrupt, "http", "Transfer-Encoding: %.40q", value).WithOutcome(mainstem.Unknown)
		}
		r.chunks = true
	case is("Connection"):
		if bytes.EqualFold(value, []byte("close")) {
			r.close = true
		} else if bytes.EqualFold(value, []byte("keep-alive")) {
			r.close = false
		}
	case is("Content-Type"):
		r.ContentType = mediaType(value)
	case is("Content-Encoding"):
		r.Encoding = string(value)
	case is("Location"):
		r.Location = string(value)
	case is("ETag"):
		r.ETag = string(value)
	case is("Server"):
		r.Server = serverName(value)
	}
	return nil
}

// mediaType returns a Content-Type; the usual ones take no memory.
func mediaType(value []byte) string {
	switch string(value) {
	case "application/json":
		return "application/json"
	case "application/json; charset=utf-8":
		return "application/json; charset=utf-8"
	case "application/json;charset=UTF-8":
		return "application/json;charset=UTF-8"
	}
	return string(value)
}

func serverName(value []byte) string {
	if string(value) == "libnhttpd" {
		return "libnhttpd"
	}
	return string(value)
}

// trailer reads what follows the last chunk.
func (c *Conn) trailer(ctx context.Context) error {
	left := MaxHeader
	for {
		line, err := c.line(&left)
		if err != nil {
			c.broken.Store(true)
			return failure(ctx, mainstem.Unknown, err)
		}
		if len(line) == 0 {
			return nil
		}
	}
}

// Ended reports whether the body was read to its end, as the server sent it.
func (r *Response) Ended() bool { return r.done }

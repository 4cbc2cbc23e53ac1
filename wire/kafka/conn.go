package kafka

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

const (
	readBuffer = 4 << 10
	// ioChunk is what a client must take within the write timeout, and with what it has
	// progress.
	ioChunk = 256 << 10
)

// conn is one client connection. One goroutine reads a request, serves it and writes
// the answer, so that answers are in order; requests that follow meanwhile wait in
// the socket.
type conn struct {
	s        *Server
	nc       net.Conn
	in       *bufio.Reader
	on       net.Listener
	as       *Listener
	ctx      context.Context // done when the connection ends
	cancel   context.CancelFunc
	client   coord.Client
	auth     auth
	trust    int         // bytes that a request gets memory for before it is here
	request  budget.Hold // for the request that is being read or served
	carries  budget.Hold // for its answer
	fetch    sessions
	answered int      // bytes of the last answer: the next may be like it
	batches  int      // bytes of record batches in the answer
	fetched  [][]byte // the memory of these
	failed   error    // why the connection ends after the answer

	mu struct {
		sync.Mutex
		idle     bool // waits for a request
		draining bool // ends with the request that is being served
		slow     bool // waits for the client to take or send more, or for other clients
		recalled bool // was closed while it did
	}
}

func newConn(s *Server, nc net.Conn, on net.Listener, as *Listener) *conn {
	c := &conn{s: s, nc: nc, in: bufio.NewReaderSize(nc, readBuffer), on: on, as: as, request: s.requests.Hold(), carries: s.answers.Hold()}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	host, _, _ := net.SplitHostPort(nc.RemoteAddr().String())
	c.client.Host = "/" + host // as Java writes an address without a name, and Kafka shows it
	return c
}

// serve serves the connection until it ends.
func (c *conn) serve() {
	defer c.fetch.close()
	defer c.nc.Close()
	defer c.cancel()
	for err := c.secure(); ; err = c.serveOne() {
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, errDrained):
		default:
			c.s.o.Logger.LogAttrs(c.ctx, slog.LevelInfo, "kafka connection closed",
				slog.Any("client", c.nc.RemoteAddr()), slog.String("id", c.client.ID), slog.Any("error", err))
		}
		return
	}
}

var errDrained = errors.New("the server is shutting down")

// serveOne serves one request. An error ends the connection.
func (c *conn) serveOne() error {
	size, err := c.readSize()
	if err != nil {
		return err
	}
	defer c.request.Release()
	defer c.delivered()
	frame, err := c.receive(size)
	if err != nil {
		return fmt.Errorf("request of %d bytes: %w", size, err)
	}
	if c.auth.raw {
		return c.authenticateRaw(frame)
	}
	begin := time.Now()
	h, out, err := c.respond(frame)
	if h.key == int16(kmsg.Produce) { // its batches are stored; of other requests, parts may be kept
		putBuffer(frame)
	}
	if err != nil || out == nil {
		if err == nil {
			c.served(h.key, begin, size, 0)
		}
		return errors.Join(err, c.failed)
	}
	err = c.write(out)
	c.served(h.key, begin, size, len(out))
	putBuffer(out)
	return errors.Join(err, c.failed)
}

// readSize waits for a request and returns its size.
func (c *conn) readSize() (int, error) {
	if !c.setIdle(true) {
		return 0, errDrained
	}
	var b [4]byte
	_, err := io.ReadFull(c.in, b[:])
	if !c.setIdle(false) && err != nil {
		return 0, errDrained
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, fmt.Errorf("no request within %s", c.s.o.IdleTimeout)
	}
	if err != nil {
		return 0, err
	}
	size := int(int32(binary.BigEndian.Uint32(b[:])))
	if least, most := c.sizes(); size < least || size > most {
		return 0, fmt.Errorf("a request of %d bytes: want %d to %d, which is the limit of one request or of the memory for all, whichever is less", size, least, most)
	}
	return size, nil
}

// setIdle notes whether the connection waits for a request, and returns false if it
// should end instead.
func (c *conn) setIdle(idle bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.idle = idle
	if c.mu.draining {
		return false
	}
	if idle {
		_ = c.deadline(c.s.o.IdleTimeout)
	}
	return true
}

// drain ends the connection once no request is being served.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.draining = true
	if c.mu.idle {
		_ = c.nc.SetReadDeadline(past)
	}
}

// kill ends the connection at once.
func (c *conn) kill() {
	c.cancel()
	_ = c.nc.Close()
}

// deadline gives the client until d from now to send more, and no longer than it has
// to authenticate.
func (c *conn) deadline(d time.Duration) error {
	at := time.Now().Add(d)
	if until := c.auth.until; !until.IsZero() && until.Before(at) {
		at = until
	}
	return c.nc.SetReadDeadline(at)
}

// past is a deadline that ends a read at once.
var past = time.Unix(1, 0)

// write writes an answer in chunks, each within the write timeout.
func (c *conn) write(p []byte) error {
	c.setSlow(true)
	defer c.setSlow(false)
	for len(p) > 0 {
		c.progress(&c.carries)
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.s.o.WriteTimeout)); err != nil {
			return err
		}
		n, err := c.nc.Write(p[:min(len(p), ioChunk)])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("the client took nothing of an answer for %s", c.s.o.WriteTimeout)
		}
		if err != nil {
			return c.unlessRecalled(err)
		}
		p = p[n:]
	}
	return nil
}

// waiting calls f with a context that also ends when the client goes away: what
// waits for others must not outlive who asked.
func (c *conn) waiting(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(c.s.ctx, cancel)()
	if c.in.Buffered() > 0 { // the next request is here already, so the client is
		f(ctx)
		return
	}
	_ = c.nc.SetReadDeadline(time.Time{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if _, err := c.in.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			cancel()
		}
	}()
	f(ctx)
	_ = c.nc.SetReadDeadline(past)
	<-watched
}

// answer decodes and serves one request. No answer means that the client expects none.
func (c *conn) answer(frame []byte) (h header, resp kmsg.Response, err error) {
	defer func() {
		if r := recover(); r != nil { // a defect of ours must not take other clients along
			err = fmt.Errorf("serving %s version %d panicked: %v", kmsg.NameForKey(h.key), h.version, r)
			c.s.o.Logger.Error("kafka request panicked", "request", kmsg.NameForKey(h.key), "version", h.version,
				"client", c.nc.RemoteAddr(), "panic", r, "stack", string(debug.Stack()))
		}
	}()
	h, body, err := parseHeader(frame, flexibleHeader)
	a := lookup(h.key)
	switch {
	case a != nil && a.key == kmsg.ApiVersions && h.version > a.max: // its header may be one of the future
		return h, apiVersionsFallback(), nil
	case err != nil:
		return h, nil, err
	case a == nil:
		return h, nil, fmt.Errorf("unsupported request: key %d (%s), version %d", h.key, kmsg.NameForKey(h.key), h.version)
	}
	c.client.ID = h.clientID
	if h.version < a.min || h.version > a.max {
		return h, nil, fmt.Errorf("%s version %d: want %d to %d", a.key.Name(), h.version, a.min, a.max)
	}
	if err := c.admit(a.key); err != nil {
		return h, nil, fmt.Errorf("%s: %w", a.key.Name(), err)
	}
	if err := c.afford(h, body); err != nil {
		return h, nil, fmt.Errorf("%s version %d: %w", a.key.Name(), h.version, err)
	}
	req := a.key.Request()
	req.SetVersion(h.version)
	if err := req.ReadFrom(body); err != nil {
		return h, nil, fmt.Errorf("%s version %d: %w", a.key.Name(), h.version, err)
	}
	return h, a.serve(c, req), nil
}

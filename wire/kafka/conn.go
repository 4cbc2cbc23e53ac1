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

// A connection serves its requests one after the other. For each request:
//
//  1. readSize waits for the 4 bytes of the size, at most IdleTimeout.
//  2. receive reads the request as its memory is reserved (receive.go, memory.go).
//  3. answer parses the header, checks version, authentication and the cost of decoding and
//     answering, decodes the body and calls the handler of the API.
//  4. respond encodes the answer and reserves its memory (answers.go).
//  5. write sends the answer; then request, answer and reservations are released.
//
// An error in any step ends the connection: Kafka's protocol has no answer for a request that
// cannot be parsed.
//
// The connection ends in one of three other ways. drain (Shutdown) lets the current request
// finish, and interrupts the read of a connection that waits for one. kill (Shutdown, at the
// end of its context) closes the socket and cancels ctx. recall (memory.go) closes the socket
// of a connection that waits for its client while others wait for its memory.

const (
	readBuffer = 4 << 10
	// ioChunk is how many bytes are written or read at a time. A client must take each chunk
	// of an answer within the write timeout. Each chunk taken or sent is progress, see
	// conn.progress.
	ioChunk = 256 << 10
)

// conn is one client connection. One goroutine reads a request, serves it and writes
// the answer, so answers are in the order of requests. Requests that arrive meanwhile wait in
// the socket. Fields outside of mu belong to that goroutine; while waiting runs, in belongs
// to the goroutine that it starts. Other goroutines call only drain, kill and recall.
type conn struct {
	s        *Server
	nc       net.Conn
	in       *bufio.Reader // reads nc
	on       net.Listener
	as       *Listener
	ctx      context.Context // done when the connection ends
	cancel   context.CancelFunc
	client   coord.Client
	auth     auth
	trust    int         // bytes of the next request that get memory before they arrive; at most trustedFrame
	request  budget.Hold // of Server.requests, for the request that is being read or served
	carries  budget.Hold // of Server.answers, for its answer
	expects  int         // bytes of request that are for building the answer; 0 once it is encoded
	fetch    sessions
	answered int      // bytes of the last answer, as a guess at the next
	batches  int      // bytes of record batches in the answer to a fetch; 0 once it is encoded
	fetched  [][]byte // buffers of these batches, from getBuffer
	failed   error    // set by a handler: ends the connection after the answer

	mu struct {
		sync.Mutex
		idle     bool // waits for the size of a request: drain may interrupt the read
		draining bool // Shutdown was called: no further request is served
		slow     bool // waits for the client to take or send more, or for other clients: recall may close it
		recalled bool // recall has closed it
	}
}

func newConn(s *Server, nc net.Conn, on net.Listener, as *Listener) *conn {
	c := &conn{s: s, nc: nc, in: bufio.NewReaderSize(nc, readBuffer), on: on, as: as, request: s.requests.Hold(), carries: s.answers.Hold()}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	host, _, _ := net.SplitHostPort(nc.RemoteAddr().String())
	c.client.Host = "/" + host // as Java writes an address without a name, and Kafka shows it
	return c
}

// serve serves requests until the connection ends, and logs why, unless the client or the
// server closed it in the normal course.
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
	if h.key == int16(kmsg.Produce) { // its batches are in the log; other handlers may keep parts of the frame
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

// readSize waits for the size of a request, in bytes, and returns it if it is in the range
// of sizes. The error is errDrained if the connection is draining and has not got all 4 bytes.
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

// setIdle sets whether the connection waits for a request. It returns false if the connection
// is draining. The deadline is set under mu, so that it does not replace the one of drain.
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

// drain makes the connection end before its next request: at once if it waits for one.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.draining = true
	if c.mu.idle {
		_ = c.nc.SetReadDeadline(past)
	}
}

// kill closes the connection and cancels its context. A handler that does not use the
// context still runs to its end.
func (c *conn) kill() {
	c.cancel()
	_ = c.nc.Close()
}

// deadline sets the read deadline to d from now, or to the end of the time for
// authentication if that comes first.
func (c *conn) deadline(d time.Duration) error {
	at := time.Now().Add(d)
	if until := c.auth.until; !until.IsZero() && until.Before(at) {
		at = until
	}
	return c.nc.SetReadDeadline(at)
}

// past is a deadline that interrupts a read at once.
var past = time.Unix(1, 0)

// write writes an answer in chunks of ioChunk, each within the write timeout.
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

// waiting calls f with a context that also ends when the client disconnects or the server
// shuts down, so that a wait for records or members does not outlive its connection. While f
// runs, a second goroutine peeks at the connection: an error other than the deadline means
// that the client has disconnected. That is not noticed if the next request is already in the
// buffer, or comes while f runs. Invariant: when waiting returns, that goroutine has ended and
// no byte was consumed; the deadline is past, and setIdle sets the next one.
func (c *conn) waiting(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(c.s.ctx, cancel)()
	if c.in.Buffered() > 0 { // Peek would return at once
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

// answer decodes and serves one request. A nil resp means that the client expects no answer.
// An error ends the connection, as does a panic of the handler, which is logged.
func (c *conn) answer(frame []byte) (h header, resp kmsg.Response, err error) {
	defer func() {
		if r := recover(); r != nil { // it must not end the connections of other clients
			err = fmt.Errorf("serving %s version %d panicked: %v", kmsg.NameForKey(h.key), h.version, r)
			c.s.o.Logger.Error("kafka request panicked", "request", kmsg.NameForKey(h.key), "version", h.version,
				"client", c.nc.RemoteAddr(), "panic", r, "stack", string(debug.Stack()))
		}
	}()
	h, body, err := parseHeader(frame, flexibleHeader)
	a := lookup(h.key)
	switch {
	case a != nil && a.key == kmsg.ApiVersions && h.version > a.max: // its header may have a newer form, so err does not count
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
	withoutRepeats(req)
	return h, a.serve(c, req), nil
}

package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/message"
)

// exchange is one HTTP request and its response. For the RPC layer it is the response writer and
// the request body, and it limits both: how long a body takes and how large it is, and how long a
// client may leave a response unread.
type exchange struct {
	http.ResponseWriter
	h    *Handler
	body io.ReadCloser
	read int64 // bytes of the body that may be in memory

	ctx     context.Context // of the request
	header  http.Header     // of the request
	request budget.Hold     // for read
	answer  budget.Hold     // for a large answer that is not a stream; empty for other answers

	http1 bool // the connection carries one request at a time

	// sending is the reservation of the message that is being written, or nil. Only the goroutine
	// that writes sets it.
	sending *budget.Hold
	own     *budget.Hold // for the next message of the same stream; nil if this is no stream

	stall *time.Timer // runs while a write is under way; nil: no limit
	late  *time.Timer // runs from the first read of the body to its end; nil before

	mu struct {
		sync.Mutex
		phase    phase
		closing  bool        // the handler is: the client has closeGrace for each phase in which it is waited for
		grace    *time.Timer // of the present phase; nil: none
		finished bool        // the response writer must not be used any more
		writing  bool        // a message with a reservation is being written
	}
}

// phase says what an exchange waits for. Phases follow each other; some may be left out.
type phase int

const (
	begun     phase = iota
	reading         // for the client, which sends the request
	serving         // for the log
	answering       // for the client, which reads the response; in a stream also for the log
)

func newExchange(h *Handler, w http.ResponseWriter, r *http.Request) *exchange {
	return &exchange{
		ResponseWriter: w, h: h, body: r.Body, http1: r.ProtoMajor == 1,
		ctx: r.Context(), header: r.Header, request: h.memory.requests.Hold(), answer: h.memory.answers.Hold(),
	}
}

func (x *exchange) setSending(h *budget.Hold) { x.sending = h }

func (x *exchange) setOwn(h *budget.Hold) { x.own = h }

// Unwrap is used by [http.ResponseController].
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Read reads the request body.
func (x *exchange) Read(p []byte) (int, error) {
	x.enter(reading)
	if x.late == nil && x.h.o.BodyTimeout > 0 {
		x.late = time.AfterFunc(x.h.o.BodyTimeout, x.cutRead)
	}
	n, err := x.body.Read(p)
	// Bytes beyond every limit are read, so that the call can be answered, but not kept.
	count := min(int64(n), max(int64(x.h.o.MaxCommit), int64(x.h.o.MaxRequest))-x.read)
	x.read += count
	if err := x.hold(count); err != nil {
		return 0, message.EncodeError(err, mainstem.NotWritten)
	}
	if err != nil {
		x.enter(serving)
		if x.late != nil {
			x.late.Stop()
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if x.http1 {
			x.Header().Set("Connection", "close") // the rest of the body is not the next request
		}
		cause := fmt.Errorf("the request did not arrive within %v", x.h.o.BodyTimeout)
		if x.h.stopping.Err() != nil {
			cause = errStopping
		}
		return n, message.EncodeError(x.unread(cause, ""), mainstem.NotWritten)
	}
	return n, err
}

// Close closes the request body.
func (x *exchange) Close() error { return x.body.Close() }

// writeChunk is the number of bytes that a client must read, within the stall timeout, to have
// made progress.
const writeChunk = 256 << 10

// Write writes a part of the response.
func (x *exchange) Write(p []byte) (n int, err error) {
	for more := true; more && err == nil; more = n < len(p) {
		var wrote int
		x.startStall()
		wrote, err = x.ResponseWriter.Write(p[n:min(n+writeChunk, len(p))])
		x.stopStall()
		n += wrote
	}
	return n, err
}

// Flush sends what was written.
func (x *exchange) Flush() {
	x.startStall()
	_ = http.NewResponseController(x.ResponseWriter).Flush() // if it fails, the next write fails too
	x.stopStall()
}

func (x *exchange) startStall() {
	x.enter(answering)
	if x.sending != nil {
		x.setWriting(true)
		x.sending.OnRecall(x.recall, x.own)
	}
	switch {
	case x.h.o.StallTimeout <= 0:
	case x.stall == nil:
		x.stall = time.AfterFunc(x.h.o.StallTimeout, x.cut)
	default:
		x.stall.Reset(x.h.o.StallTimeout)
	}
}

func (x *exchange) stopStall() {
	if x.sending != nil {
		x.sending.OnRecall(nil, nil)
		x.setWriting(false)
	}
	if x.stall != nil {
		x.stall.Stop()
	}
}

func (x *exchange) setWriting(writing bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.writing = writing
}

// recall cuts a response that its client does not read, because other calls wait for its memory.
// It does nothing if the client has read it meanwhile.
func (x *exchange) recall() {
	x.control(func(c *http.ResponseController) error {
		if !x.mu.writing {
			return nil
		}
		x.h.o.Logger.Warn("rpc: a client took nothing of a response while others waited for memory, its response is cut", "waited", budget.Patience)
		return errors.Join(c.SetReadDeadline(past()), c.SetWriteDeadline(past()))
	})
}

// enter records that the exchange is in a phase, unless that has passed.
func (x *exchange) enter(p phase) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p > x.mu.phase {
		x.mu.phase = p
		x.limitLocked()
	}
}

// close limits how long the client is waited for. It does not limit how long the log executes the
// call.
func (x *exchange) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.closing = true
	x.limitLocked()
}

// limitLocked starts the timer of the phase if there must be one.
func (x *exchange) limitLocked() {
	if x.mu.grace != nil {
		x.mu.grace.Stop()
		x.mu.grace = nil
	}
	p := x.mu.phase
	if !x.mu.closing || x.mu.finished || p != reading && p != answering {
		return
	}
	x.mu.grace = time.AfterFunc(closeGrace, func() {
		x.control(func(c *http.ResponseController) error {
			if x.mu.phase != p {
				return nil
			}
			err := c.SetReadDeadline(past())
			if p == answering {
				err = errors.Join(err, c.SetWriteDeadline(past()))
			}
			return err
		})
	})
}

// past returns a deadline that has passed.
func past() time.Time { return time.Now().Add(-time.Second) }

// cut makes reads of the request and writes of the response fail from now on.
func (x *exchange) cut() {
	x.cutRead()
	x.control(func(c *http.ResponseController) error { return c.SetWriteDeadline(past()) })
}

func (x *exchange) cutRead() {
	x.control(func(c *http.ResponseController) error { return c.SetReadDeadline(past()) })
}

// control runs f unless the exchange has ended, since net/http reuses the response writer
// afterwards.
func (x *exchange) control(f func(*http.ResponseController) error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.mu.finished {
		_ = f(http.NewResponseController(x.ResponseWriter)) // a writer without deadlines cannot be cut
	}
}

// finish releases everything that the exchange has taken from the limits of the handler.
func (x *exchange) finish() {
	x.stopStall()
	if x.late != nil {
		x.late.Stop()
	}
	x.sending = nil
	x.request.Release()
	x.answer.Release()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.finished = true
	x.limitLocked()
}

package rpc

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/message"
	wire "github.com/mainstemdev/mainstem/internal/session"
)

// sessionCall is one call of a session. It is also the context of the call, which costs nothing
// unless something waits for its end.
type sessionCall struct {
	s        *session
	number   uint64
	method   wire.Method
	streams  bool      // its answers are a stream
	again    bool      // an earlier session has sent it, with the same number
	deadline time.Time // zero: none

	request  []byte    // the whole message, once the call is being served
	small    [128]byte // memory for a small request
	inline   bool      // the reader serves it, or did when it began
	turn     uint64    // its number in s.turns, if it is inline; 0: the call was refused
	unnamed  bool      // a commit without an ID, which the client may send again
	recorded bool      // its outcome is in s.outcomes
	flow     wire.Flow // of the answers
	answer   budget.Hold
	sends    atomic.Bool  // it waits until the client takes an answer
	sending  *budget.Hold // of the message being sent; used only by the goroutine that sends
	own      *budget.Hold
	stall    *time.Timer // runs while a message is being sent; nil before the first one, and without a limit

	arriving arrival // under s.mu

	mu struct {
		sync.Mutex
		err   error         // why the context has ended
		cause error         // error for the client; nil: the error of the log
		done  chan struct{} // nil until Done is called
		timer *time.Timer   // of the deadline; nil until Done is called
		after map[*func()]struct{}
	}
}

// Deadline implements [context.Context].
func (c *sessionCall) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements [context.Context].
func (c *sessionCall) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.done == nil {
		c.mu.done = make(chan struct{})
		if c.mu.err != nil {
			close(c.mu.done)
		} else {
			c.startTimerLocked()
		}
	}
	return c.mu.done
}

// AfterFunc lets package context cancel derived contexts without a goroutine.
func (c *sessionCall) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err != nil {
		go f()
		return func() bool { return false }
	}
	c.startTimerLocked()
	if c.mu.after == nil {
		c.mu.after = map[*func()]struct{}{}
	}
	key := &f
	c.mu.after[key] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, there := c.mu.after[key]
		delete(c.mu.after, key)
		return there
	}
}

func (c *sessionCall) startTimerLocked() {
	if !c.deadline.IsZero() && c.mu.timer == nil {
		c.mu.timer = time.AfterFunc(time.Until(c.deadline), func() { c.endContext(context.DeadlineExceeded, nil) })
	}
}

// Err implements [context.Context].
func (c *sessionCall) Err() error {
	c.mu.Lock()
	err := c.mu.err
	c.mu.Unlock()
	if err == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		c.endContext(context.DeadlineExceeded, nil)
		return context.DeadlineExceeded
	}
	return err
}

// Value implements [context.Context].
func (c *sessionCall) Value(key any) any {
	if key == (exchangeKey{}) {
		return receiver(c)
	}
	return nil
}

// cancel ends the context of the call because the client has canceled it or is gone.
func (c *sessionCall) cancel(cause error) {
	c.endContext(context.Canceled, canceled(cause))
}

func canceled(cause error) *mainstem.Error {
	return &mainstem.Error{Kind: mainstem.KindCanceled, Op: "rpc", Outcome: mainstem.Unknown, Err: cause}
}

// abort ends the context of the call. The client gets an error of kind Unavailable.
func (c *sessionCall) abort(cause error) {
	e := mainstem.Errorf(mainstem.KindUnavailable, "rpc", "%w", cause)
	if c.writes() {
		e.Outcome = mainstem.Unknown
	}
	c.endContext(context.Canceled, e)
}

// endContext ends the context once. cause is the error for the client if the call fails; nil
// means the error of the call itself. The last frame of a call is sent in any case, since the
// client accounts for credit until then.
func (c *sessionCall) endContext(err, cause error) {
	c.mu.Lock()
	if c.mu.err != nil {
		c.mu.Unlock()
		return
	}
	c.mu.err, c.mu.cause = err, cause
	if c.mu.done != nil {
		close(c.mu.done)
	}
	if c.mu.timer != nil {
		c.mu.timer.Stop()
	}
	after := c.mu.after
	c.mu.after = nil
	c.mu.Unlock()
	for f := range after {
		go (*f)()
	}
}

func (c *sessionCall) setSending(h *budget.Hold) { c.sending = h }

func (c *sessionCall) setOwn(h *budget.Hold) { c.own = h }

// buffers has buffers for frames and messages that are being sent.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// keepBuffer is the size, in bytes, up to which a buffer is kept.
const keepBuffer = 256 << 10

func putBuffer(p *[]byte, b []byte) {
	if cap(b) <= keepBuffer {
		*p = b[:0]
		buffers.Put(p)
	}
}

// serve answers the call, even if it panics.
func (c *sessionCall) serve() {
	var err error
	defer func() {
		if v := recover(); v != nil {
			c.s.h.o.Logger.ErrorContext(c, "rpc: a call panicked", "procedure", c.method.String(), "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("the server failed: a bug, see its log")
		}
		if err != nil {
			c.fail(err)
		}
		c.endContext(context.Canceled, nil) // for derived contexts
		c.answer.Release()
		if c.arriving.hold != nil {
			c.arriving.hold.Release()
		}
	}()
	err = methodOf(c.method).serve(c)
}

// fail ends the call with an error.
func (c *sessionCall) fail(err error) {
	c.mu.Lock()
	cause := c.mu.cause
	c.mu.Unlock()
	if cause != nil {
		err = cause
	}
	outcome := mainstem.NoOutcome
	if c.writes() {
		outcome = mainstem.Unknown
	}
	p := buffers.Get().(*[]byte)
	b := wire.BeginFrame((*p)[:0], wire.TypeError, 0, c.number)
	b = message.AppendError(b, err, outcome)
	c.recordError(b[wire.HeaderSize:])
	c.post(wire.SealFrame(b, 0))
	putBuffer(p, b)
}

// refuse ends a call that does not reach the log.
func (c *sessionCall) refuse(e *mainstem.Error) {
	if c.writes() {
		e.Outcome = mainstem.NotWritten
		if c.again {
			e.Outcome = mainstem.Unknown // an earlier session may have served it
		}
	}
	c.fail(e)
}

// post queues a frame. The reader sends the answers to calls that it serves when no further input
// is buffered.
func (c *sessionCall) post(frame []byte) {
	if c.inline {
		c.s.conn.Queue(frame)
		return
	}
	c.s.conn.Throttle()
	c.s.conn.PostAmong(int(c.s.active.Load()), frame)
}

// reply sends the answer of a call with one answer.
func (c *sessionCall) reply(m proto.Message) error {
	p := buffers.Get().(*[]byte)
	b := wire.BeginFrame((*p)[:0], wire.TypeData, wire.First|wire.Last|wire.End, c.number)
	b, err := proto.MarshalOptions{}.MarshalAppend(b, m)
	if err == nil {
		c.recordAnswer(b[wire.HeaderSize:])
		err = c.replyFrame(b)
	}
	putBuffer(p, b)
	return err
}

// replyFrame sends the answer of a call with one answer. b begins with room for the header of a
// frame.
func (c *sessionCall) replyFrame(b []byte) error {
	if len(b)-wire.HeaderSize <= wire.SmallMessage {
		c.post(wire.SealFrame(b, 0))
		return nil
	}
	c.sending = &c.answer
	return c.sendBytes(wire.End, b[wire.HeaderSize:])
}

// send sends one message of a stream.
func (c *sessionCall) send(m proto.Message) error {
	p := buffers.Get().(*[]byte)
	b, err := proto.MarshalOptions{}.MarshalAppend((*p)[:0], m)
	if err == nil {
		err = c.sendBytes(0, b)
	}
	putBuffer(p, b)
	return err
}

// sendBytes sends a message when the client has given credit for it.
func (c *sessionCall) sendBytes(f wire.Flags, b []byte) error {
	c.sends.Store(true)
	defer c.sends.Store(false)
	c.startStall()
	defer c.stopStall()
	if len(b) > wire.ProgressSize {
		c.flow.Progress = c.startStall
	}
	if !c.s.conn.Covers(len(b)) {
		c.s.handOver(c)
	}
	_, err := c.s.conn.Send(c, wire.TypeData, f, c.number, nil, b, &c.flow)
	return err
}

// startStall begins the time in which the client must make progress, or begins it again.
func (c *sessionCall) startStall() {
	if c.sending != nil {
		c.sending.OnRecall(func() { c.abort(errRecall) }, c.own)
	}
	switch limit := c.s.h.o.StallTimeout; {
	case limit <= 0:
	case c.stall == nil:
		c.stall = time.AfterFunc(limit, func() { c.abort(errStalled) })
	default:
		c.stall.Reset(limit)
	}
}

func (c *sessionCall) stopStall() {
	if c.sending != nil {
		c.sending.OnRecall(nil, nil)
	}
	if c.stall != nil {
		c.stall.Stop()
	}
}

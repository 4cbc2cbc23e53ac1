package remotelog

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	wire "github.com/mainstemdev/mainstem/internal/session"
)

// call says what is being done, for errors.
type call struct {
	op     string
	space  string
	key    []byte
	writes bool // its errors have an outcome
	resume bool // the server can be asked for the answer if that was lost
	// persists means that tries go on until the outcome is known.
	persists bool
	worst    mainstem.Outcome // of earlier calls about the same
	began    time.Time
}

func (c call) fail(kind mainstem.Kind, outcome mainstem.Outcome, cause error) *mainstem.Error {
	if !c.writes {
		outcome = mainstem.NoOutcome
	}
	return &mainstem.Error{Kind: kind, Op: c.op, Space: c.space, Key: c.key, Outcome: outcome, Err: cause}
}

// try is one attempt at a call. It learns from HTTP whether there was a connection:
// without one, the server cannot have seen anything.
type try struct {
	connected atomic.Bool
	number    uint64 // of the call, if a session carried it
	lost      lostCall
	answered  bool // lost, and the server has said what it became
	trace     httptrace.ClientTrace
}

// lostCall is a call with [call.resume] whose session was lost before the answer. It may be sent
// again with its number in a session of the same key: see docs/sessions.md.
type lostCall struct {
	key    wire.Key
	number uint64 // 0: nothing was lost
}

// errForgotten is the cause of an unknown outcome that no retry can resolve.
var errForgotten = errors.New("the connection was lost before the answer came, and the server that answers now does not know the session")

// forgotten is the error of a call that was lost and cannot be sent again.
func (c call) forgotten() *mainstem.Error {
	e := c.fail(mainstem.KindUnavailable, mainstem.Unknown, errForgotten)
	e.Hint = "a batch with an ID can be committed again"
	return e
}

// watch returns a context for the attempt.
func (t *try) watch(ctx context.Context) context.Context {
	t.trace.GotConn = func(httptrace.GotConnInfo) { t.connected.Store(true) }
	return httptrace.WithClientTrace(ctx, &t.trace)
}

// explain turns the error of an attempt into an error of the contract.
func (c call) explain(ctx context.Context, t *try, err error) *mainstem.Error {
	if f := (sessionFailure{}); errors.As(err, &f) {
		return c.failed(ctx, t, f.error)
	}
	if e := message.DecodeError(err); e != nil {
		return e // the server's word
	}
	if r := (*plainRefusal)(nil); errors.As(err, &r) {
		return c.plainly(r)
	}
	outcome := mainstem.NotWritten
	if t.connected.Load() {
		outcome = mainstem.Unknown
	}
	if ctx.Err() != nil {
		return c.ended(ctx, outcome)
	}
	if _, limited := ctx.Deadline(); limited && connect.IsWireError(err) && connect.CodeOf(err) == connect.CodeDeadlineExceeded {
		// The server was told of the deadline, and its clock was the first.
		return c.fail(mainstem.KindCanceled, outcome, &mainstem.DeadlineError{After: time.Since(c.began), Waiting: "the server's answer"})
	}
	if connect.IsWireError(err) || connect.CodeOf(err) == connect.CodeUnimplemented {
		return c.refused(err, outcome)
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return c.refused(err, outcome) // by something in between that speaks plain HTTP
	case connect.CodeInvalidArgument, connect.CodeResourceExhausted:
		return c.fail(mainstem.KindInternal, outcome, fmt.Errorf("the answer cannot be read: %w", cause(err)))
	}
	e := c.fail(mainstem.KindUnavailable, outcome, cause(err))
	if !t.connected.Load() {
		e.Hint = "is a Mainstem server running there?"
	}
	return e
}

// ended is the error of a call whose context, or else whose Log, ended.
func (c call) ended(ctx context.Context, outcome mainstem.Outcome) *mainstem.Error {
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), errClosed) {
		return c.closed(outcome)
	}
	return c.fail(mainstem.KindCanceled, outcome, mainstem.Ended(ctx, c.op, c.began, "the server's answer").Err)
}

func (c call) closed(outcome mainstem.Outcome) *mainstem.Error {
	return c.fail(mainstem.KindClosed, outcome, errClosed)
}

// refused explains an error that the other side sent without the detail that a
// server's log gives: the RPC layer refused the request, or a proxy did.
func (c call) refused(err error, outcome mainstem.Outcome) *mainstem.Error {
	text := cause(err)
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return c.fail(mainstem.KindInvalid, mainstem.NotWritten, text)
	case connect.CodeResourceExhausted:
		e := c.fail(mainstem.KindInvalid, mainstem.NotWritten, text)
		e.Hint = "split the batch, or raise the server's limit"
		return e
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return c.fail(mainstem.KindDenied, mainstem.NotWritten, text)
	case connect.CodeUnimplemented:
		e := c.fail(mainstem.KindUnsupported, mainstem.NotWritten, text)
		e.Hint = "does the URL lead to a Mainstem server of this version?"
		return e
	case connect.CodeUnavailable, connect.CodeCanceled, connect.CodeDeadlineExceeded, connect.CodeAborted:
		return c.fail(mainstem.KindUnavailable, outcome, text)
	}
	return c.fail(mainstem.KindInternal, outcome, text)
}

// cause returns what an RPC error wraps: its code is said by the kind already.
func cause(err error) error {
	var c *connect.Error
	if errors.As(err, &c) && c.Unwrap() != nil {
		return c.Unwrap()
	}
	return err
}

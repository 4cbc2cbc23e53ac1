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

// call describes a call, for its errors.
type call struct {
	op     string
	space  string
	key    []byte
	writes bool // errors of the call have an outcome
	resume bool // if the answer is lost, the server can be asked for it
	// persists is set if the call is repeated until its outcome is known.
	persists bool
	worst    mainstem.Outcome // outcome of earlier calls for the same batch
	began    time.Time
}

func (c call) fail(kind mainstem.Kind, outcome mainstem.Outcome, cause error) *mainstem.Error {
	if !c.writes {
		outcome = mainstem.NoOutcome
	}
	return &mainstem.Error{Kind: kind, Op: c.op, Space: c.space, Key: c.key, Outcome: outcome, Err: cause}
}

// try is one attempt at a call. It records whether there was a connection: without one, the
// server has certainly not seen the call.
type try struct {
	connected atomic.Bool
	number    uint64 // of the call, if it was made in a session
	lost      lostCall
	answered  bool // the answer was lost, and the server has returned the outcome
	trace     httptrace.ClientTrace
}

// lostCall is a call with [call.resume] whose session was lost before the answer. It may be sent
// again, with its number, in a session with the same key: see docs/sessions.md.
type lostCall struct {
	key    wire.Key
	number uint64 // 0: no call was lost
}

// errForgotten is the cause of an unknown outcome that repeating the call cannot resolve.
var errForgotten = errors.New("the connection was lost before the answer came, and the server that answers now does not know the session")

// forgotten returns the error of a call that was lost and cannot be sent again.
func (c call) forgotten() *mainstem.Error {
	e := c.fail(mainstem.KindUnavailable, mainstem.Unknown, errForgotten)
	e.Hint = "a batch with an ID can be committed again"
	return e
}

// watch returns a context for the attempt, which records whether there is a connection.
func (t *try) watch(ctx context.Context) context.Context {
	t.trace.GotConn = func(httptrace.GotConnInfo) { t.connected.Store(true) }
	return httptrace.WithClientTrace(ctx, &t.trace)
}

// explain turns the error of an attempt by RPC into an error of the contract.
func (c call) explain(ctx context.Context, t *try, err error) *mainstem.Error {
	if f := (sessionFailure{}); errors.As(err, &f) {
		return c.failed(ctx, t, f.error)
	}
	if e := message.DecodeError(err); e != nil {
		return e // the error from the server
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
		// The deadline was sent to the server, whose clock reached it first.
		return c.fail(mainstem.KindCanceled, outcome, &mainstem.DeadlineError{After: time.Since(c.began), Waiting: "the server's answer"})
	}
	if connect.IsWireError(err) || connect.CodeOf(err) == connect.CodeUnimplemented {
		return c.refused(err, outcome)
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return c.refused(err, outcome) // from a proxy that speaks plain HTTP
	case connect.CodeInvalidArgument, connect.CodeResourceExhausted:
		return c.fail(mainstem.KindInternal, outcome, fmt.Errorf("the answer cannot be read: %w", cause(err)))
	}
	e := c.fail(mainstem.KindUnavailable, outcome, cause(err))
	if !t.connected.Load() {
		e.Hint = "is a Mainstem server running there?"
	}
	return e
}

// ended returns the error of a call whose context has ended, or else whose Log was closed.
func (c call) ended(ctx context.Context, outcome mainstem.Outcome) *mainstem.Error {
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), errClosed) {
		return c.closed(outcome)
	}
	return c.fail(mainstem.KindCanceled, outcome, mainstem.Ended(ctx, c.op, c.began, "the server's answer").Err)
}

func (c call) closed(outcome mainstem.Outcome) *mainstem.Error {
	return c.fail(mainstem.KindClosed, outcome, errClosed)
}

// refused turns an error without the details of an error of a log into an error of the contract:
// the RPC layer of the server, or a proxy, has refused the request.
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

// cause returns the error that an RPC error wraps, since the kind already expresses the code of
// the RPC error.
func cause(err error) error {
	var c *connect.Error
	if errors.As(err, &c) && c.Unwrap() != nil {
		return c.Unwrap()
	}
	return err
}

package remotelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mainstemdev/mainstem"
	wire "github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1/mainstemv1connect"
)

// method is a method with one answer, for both transports: its number in a session, and the
// method of the RPC client.
type method[Req, Res any] struct {
	number wire.Method
	rpc    func(mainstemv1connect.LogServiceClient, context.Context, *Req) (*Res, error)
}

// messageOf is a pointer to a message of type T.
type messageOf[T any] interface {
	*T
	proto.Message
}

// ask makes a call with one answer. If again returns true for an error, ask repeats the call, up
// to the retries of the Log.
func ask[Req, Res any, In messageOf[Req], Out messageOf[Res]](ctx context.Context, l *Log, c call, m method[Req, Res], in In, again func(*try, *mainstem.Error) bool) (Out, error) {
	var out Out
	err := l.tries(ctx, c, again, func(ctx context.Context, t *try) *mainstem.Error {
		p := newRequest()
		defer putRequest(p)
		b, err := proto.MarshalOptions{}.MarshalAppend(*p, in)
		if err != nil {
			return c.fail(mainstem.KindInvalid, mainstem.NotWritten, err)
		}
		*p = b
		body, there, e := l.askSession(ctx, c, m.number, b, t)
		if e == nil && !there {
			out, e = askRPC[Req, Res, In, Out](ctx, l, c, m, in, t)
		}
		if e != nil || !there {
			return e
		}
		out = Out(new(Res))
		if err := proto.Unmarshal(body, out); err != nil {
			return c.fail(mainstem.KindInternal, mainstem.Unknown, fmt.Errorf("the answer cannot be read: %w", err))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// askSession makes a call with one answer in a session. request must be appended to the buffer
// that newRequest returns. It returns false if the call must be made by RPC.
func (l *Log) askSession(ctx context.Context, c call, m wire.Method, request []byte, t *try) (body []byte, there bool, _ *mainstem.Error) {
	for {
		again := t.lost.number > 0
		s, e := l.session(ctx, c, again)
		switch {
		case e != nil:
			return nil, false, e
		case again && s == nil:
			return nil, false, c.fail(mainstem.KindUnavailable, mainstem.Unknown, errNoAnswer)
		case again && s.key != t.lost.key:
			t.lost = lostCall{}
			return nil, false, c.forgotten()
		case s == nil:
			return nil, false, nil
		}
		body, err := s.one(ctx, l.killed, m, request, t)
		if errors.Is(err, errNotBegun) {
			continue // the session has just ended; the next try gets another one
		}
		if err == nil {
			return body, true, nil
		}
		e = c.failed(ctx, t, err)
		if errors.As(err, new(*mainstem.Error)) {
			t.answered = again
		} else if c.resume && s.keyed && e.Kind == mainstem.KindUnavailable {
			t.lost = lostCall{s.key, t.number}
		}
		return nil, false, e
	}
}

func askRPC[Req, Res any, In messageOf[Req], Out messageOf[Res]](ctx context.Context, l *Log, c call, m method[Req, Res], in In, t *try) (Out, *mainstem.Error) {
	ctx, release := until(ctx, l.killed)
	defer release()
	out, err := m.rpc(l.client, t.watch(ctx), in)
	if err != nil {
		return nil, c.explain(ctx, t, err)
	}
	return out, nil
}

// tries calls attempt until it succeeds, or again returns false.
func (l *Log) tries(ctx context.Context, c call, again func(*try, *mainstem.Error) bool, attempt func(context.Context, *try) *mainstem.Error) error {
	if ctx.Err() != nil {
		return c.ended(ctx, mainstem.NotWritten)
	}
	if !l.begin() {
		return c.closed(mainstem.NotWritten)
	}
	defer l.end()
	c.began = time.Now()
	worst := c.worst
	var lost lostCall
	for n := 0; ; n++ {
		t := &try{lost: lost}
		e := attempt(ctx, t)
		if e == nil {
			return nil
		}
		lost = t.lost
		worst = max(worst, e.Outcome) // Unknown is the largest
		if t.answered {
			worst = e.Outcome // the outcome of all tries
		}
		unresolved := c.persists && worst == mainstem.Unknown
		if (n < l.o.Retries || unresolved) && again(t, e) {
			wait, release := until(ctx, l.killed)
			retryPolicy.Wait(wait, n+1)
			over := wait.Err() != nil
			release()
			if !over {
				continue
			}
		}
		return afterTries(e, n+1, worst)
	}
}

// afterTries returns the error e of the last of n tries. If an earlier try may have been written,
// the outcome of the call is unknown.
func afterTries(e *mainstem.Error, n int, worst mainstem.Outcome) error {
	if n == 1 {
		return e
	}
	e.Outcome = worst
	if e.Err != nil {
		e.Err = fmt.Errorf("%w (try %d)", e.Err, n)
	}
	return e
}

// failed turns the error of a call in a session into an error of the contract.
func (c call) failed(ctx context.Context, t *try, err error) *mainstem.Error {
	var said *mainstem.Error
	if errors.As(err, &said) {
		return said // the error from the server
	}
	outcome := mainstem.NotWritten
	if t.connected.Load() {
		outcome = mainstem.Unknown
	}
	switch {
	case errors.Is(err, errClosed):
		return c.closed(outcome)
	case ctx.Err() != nil:
		return c.ended(ctx, outcome)
	case errors.Is(err, wire.ErrProtocol):
		return c.fail(mainstem.KindInternal, outcome, err)
	}
	return c.fail(mainstem.KindUnavailable, outcome, fmt.Errorf("%w: %w", errNoAnswer, err))
}

// never is the condition for calls that must not be repeated.
func never(*try, *mainstem.Error) bool { return false }

// ifUnavailable is the condition for calls that may be repeated any number of times.
func ifUnavailable(_ *try, e *mainstem.Error) bool { return e.Kind == mainstem.KindUnavailable }

// ifEnded is the condition for batches with an ID made by the Log. It covers all errors that a
// stopping server may return.
func ifEnded(_ *try, e *mainstem.Error) bool { return endsCalls(e) && !errors.Is(e, errClosed) }

// ifResumable is the condition for commits without an ID, which the server identifies by number.
func ifResumable(t *try, e *mainstem.Error) bool { return ifUnavailable(t, e) && t.lost.number > 0 }

// ifLost is the condition for reads: there was a connection, and it was lost, perhaps because the
// server was restarted. Without a connection no server can be reached.
func ifLost(t *try, e *mainstem.Error) bool { return ifUnavailable(t, e) && t.connected.Load() }

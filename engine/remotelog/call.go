package remotelog

import (
	"context"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
)

// rpc is a method of the RPC client with one answer.
type rpc[Req, Res any] func(context.Context, *Req) (*Res, error)

// ask makes a call with one answer. When again says of an error that trying once more
// is safe, it does so, up to the Log's retries.
func ask[Req, Res any](ctx context.Context, l *Log, c call, f rpc[Req, Res], in *Req, again func(*try, *mainstem.Error) bool) (*Res, error) {
	if ctx.Err() != nil {
		return nil, c.ended(ctx, mainstem.NotWritten)
	}
	c.began = time.Now()
	ctx, end, ok := l.begin(ctx)
	if !ok {
		return nil, c.closed(mainstem.NotWritten)
	}
	defer end()
	var worst mainstem.Outcome
	for n := 0; ; n++ {
		t := new(try)
		out, err := f(t.watch(ctx), in)
		if err == nil {
			return out, nil
		}
		e := c.explain(ctx, t, err)
		worst = max(worst, e.Outcome) // Unknown is the largest
		if n < l.o.Retries && again(t, e) {
			retryPolicy.Wait(ctx, n+1)
			if ctx.Err() == nil {
				continue
			}
		}
		return nil, afterTries(e, n+1, worst)
	}
}

// afterTries returns the error of the last of n tries. If an earlier one may have
// been written, so may be the whole.
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

// never is for calls that must not be made twice.
func never(*try, *mainstem.Error) bool { return false }

// ifUnavailable is for calls that may be made any number of times.
func ifUnavailable(_ *try, e *mainstem.Error) bool { return e.Kind == mainstem.KindUnavailable }

// ifLost is for reads: a connection that was there is gone, perhaps because the
// server was started anew. Where there was none, nobody is there.
func ifLost(t *try, e *mainstem.Error) bool { return ifUnavailable(t, e) && t.connected.Load() }

package command

import (
	"context"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem/internal/backoff"
)

// RetryOptions configure [Retry]. Zero fields mean the defaults.
type RetryOptions struct {
	Attempts int           // number of tries, the first included. Default 3
	First    time.Duration // pause after the first try, doubled after each further one. Default 100 ms
	Max      time.Duration // longest pause. Default 5 s
}

// Retry handles a command again after a Conflict, which means that another writer was first, and
// after an Unavailable that is known to have written nothing. A conflict with a sealed stream is
// not tried again. Each try has an empty batch. Other errors are returned at once; the error of the
// last try is wrapped with the number of tries. A command that is joined to another is tried once:
// its outer command is tried again.
func Retry(o RetryOptions) Middleware {
	if o.Attempts <= 0 {
		o.Attempts = 3
	}
	if o.First <= 0 {
		o.First = 100 * time.Millisecond
	}
	if o.Max <= 0 {
		o.Max = 5 * time.Second
	}
	pause := backoff.Policy{First: o.First, Max: o.Max, Jitter: 0.2}
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			at := attemptOf(ctx)
			if at == nil || at.joined {
				return next(ctx, cmd)
			}
			hooks := len(at.hooks)
			r, err := next(ctx, cmd)
			for try := 1; err != nil && mayTryAgain(err); try++ {
				if try == o.Attempts {
					return r, fmt.Errorf("after %d attempts: %w", try, err)
				}
				if !pause.Wait(ctx, try) {
					return r, err
				}
				r, err = next(at.again(ctx, hooks), cmd)
			}
			return r, err
		}
	}
}

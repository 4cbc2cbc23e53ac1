package command

import (
	"context"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem/internal/backoff"
)

// RetryOptions tune [Retry]. Zero fields mean the defaults.
type RetryOptions struct {
	Attempts int           // tries in all. Default 3
	First    time.Duration // the pause after the first try; each later one is twice as long. Default 100 ms
	Max      time.Duration // the longest pause. Default 5 s
}

// Retry handles a command again if nothing of it was written because somebody else was faster
// (Conflict), or because the log was not available. Each try has an empty batch. Other errors,
// and the last one, are returned at once. A command that was joined to another is tried once: the
// outer one is tried again.
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

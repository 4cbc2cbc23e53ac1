package mainstem_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
)

// A deadline that passed reads as one, says how long the call waited and for what,
// and is found by errors.Is, whatever cause the caller gave it; so does a cancellation.
func TestEnded(t *testing.T) {
	because := errors.New("the disk is slow")
	for _, c := range []struct {
		name    string
		context func(context.Context) (context.Context, context.CancelFunc)
		is      error
		want    string
	}{
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 15*time.Second)
		}, context.DeadlineExceeded, "get: deadline exceeded after 15 s, waiting for the disk"},
		{"short deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 40*time.Millisecond)
		}, context.DeadlineExceeded, "get: deadline exceeded after 40 ms, waiting for the disk"},
		{"deadline with a cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, because)
		}, context.DeadlineExceeded, "get: deadline exceeded: the disk is slow"},
		{"deadline that knows its time", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, &mainstem.DeadlineError{After: 3 * time.Minute})
		}, context.DeadlineExceeded, "get: deadline exceeded after 3m0s, waiting for the disk"},
		{"cancellation", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, context.Canceled, "get: canceled"},
		{"cancellation with a cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(because)
			return ctx, func() {}
		}, context.Canceled, "get: canceled: the disk is slow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := c.context(t.Context())
				defer cancel()
				began := time.Now()
				<-ctx.Done()
				err := mainstem.Ended(ctx, "get", began, "the disk")
				if err.Error() != c.want || err.Kind != mainstem.KindCanceled {
					t.Errorf("%v, kind %v: want %s", err, err.Kind, c.want)
				}
				for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
					if errors.Is(err, end) != (end == c.is) {
						t.Errorf("%v matches %v: %v", err, end, errors.Is(err, end))
					}
				}
				if strings.HasSuffix(c.want, because.Error()) && !errors.Is(err, because) {
					t.Errorf("%v does not match its cause", err)
				}
			})
		})
	}
}

// An error that was made without Ended does not call a deadline canceled either.
func TestDeadlineIsNotCalledCanceled(t *testing.T) {
	err := &mainstem.Error{Kind: mainstem.KindCanceled, Op: "get", Err: context.DeadlineExceeded}
	if got := err.Error(); got != "get: deadline exceeded" {
		t.Error(got)
	}
}

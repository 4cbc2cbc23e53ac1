// Package backoff computes and waits for the pause before something that failed is
// tried again. A [Policy] is a value: the caller counts its tries, sets the count back
// after a success, and keeps the times of its policy beside the code that uses them.
//
//	var retry = backoff.Policy{First: 20 * time.Millisecond, Max: time.Second, Jitter: 0.5}
//
//	for tries := 1; ; tries++ {
//		err := call(ctx)
//		if err == nil || !retry.Wait(ctx, tries) {
//			return err
//		}
//	}
//
// # Concurrency
//
// Everything here may be used by many goroutines at a time.
//
//snippet:var call func(context.Context) error
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Policy is a pause that doubles with each failure.
type Policy struct {
	First  time.Duration // the first pause
	Max    time.Duration // the longest pause. 0: all are as long as First
	Jitter float64       // takes a random part of the pause away, up to this fraction of it: 0 (none) to 1
}

// Delay returns the pause after the n-th failure in a row, from 1.
func (p Policy) Delay(n int) time.Duration {
	d := p.First
	for ; n > 1 && 0 < d && d < p.Max; n-- {
		d += min(d, p.Max-d)
	}
	if p.Max > 0 {
		d = min(d, p.Max)
	}
	return d - time.Duration(p.Jitter*rand.Float64()*float64(d))
}

// Wait waits for the pause after the n-th failure in a row, from 1. It returns false,
// at once, when ctx ends first or has ended.
func (p Policy) Wait(ctx context.Context, n int) bool { return Sleep(ctx, p.Delay(n)) }

// Sleep waits for d. It returns false, at once, when ctx ends first or has ended.
func Sleep(ctx context.Context, d time.Duration) bool { return SleepOr(ctx, nil, d) }

// SleepOr is Sleep that returns false also when something comes from done first, or when
// it is closed.
func SleepOr(ctx context.Context, done <-chan struct{}, d time.Duration) bool {
	if ctx.Err() != nil { // select takes either, when d has passed too
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-done:
	}
	return false
}

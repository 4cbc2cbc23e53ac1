// Package follow reads the feed of a log for as long as its reader needs it, over
// errors of the log that pass. [Feed] does so in the goroutine of its caller. A [Hub] lets
// many waiters wait for the records of one space at the cost of one goroutine, the
// follower of the space:
//
//	idle --Add--> following --Linger without a waiter--> idle
//	any --Retire--> retired
//
// # When a follower ends
//
// A follower without a waiter ends after a time, not after a number of records: one that
// counts records stays in a space to which nothing is written, and keeps its goroutine,
// and with a log on another machine a stream. What a busy space costs meanwhile is bounded
// by the same time.
//
// # Guarantees
//
// A waiter is signaled for each record that is committed after Add has returned and whose
// key it waits for. It may also be signaled when there is none: for records that were
// committed just before, and when the follower ends although there are waiters. That
// happens when the hub is retired, its owner closes or the log was closed.
//
// # Concurrency and ownership
//
// The methods of a Hub may be called from many goroutines. Its owner starts the follower
// and, when it closes, waits for it. The functions among the fields run in the follower, in
// a call of the hub or in a timer.
package follow

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// retryPolicy is the pause after an error of the log.
var retryPolicy = backoff.Policy{First: 10 * time.Millisecond, Max: time.Second}

// Feed calls record with each record that f selects and with those that come, in
// order and from the calling goroutine, whatever f.Follow says. A record is valid until
// record returns.
//
// It returns nil when record returns false, and an error when ctx ends or the log is
// closed; only that of a closed log is [mainstem.ErrClosed]. After any other error it
// calls failed, unless that is nil, and goes on behind the last record after a pause
// that grows with each error in a row.
func Feed(ctx context.Context, log mainstem.Log, f mainstem.Filter, record func(*mainstem.Record) bool, failed func(error)) error {
	f.Follow = true
	failures := 0
	var rec mainstem.Record // one for all: it escapes to record
	for ctx.Err() == nil {
		for next, err := range log.Feed(ctx, f) {
			if err != nil {
				if errors.Is(err, mainstem.ErrClosed) {
					return err
				}
				if failed != nil && ctx.Err() == nil {
					failed(err)
				}
				break
			}
			rec, failures = next, 0
			f.After = rec.Position
			if !record(&rec) {
				return nil
			}
		}
		failures++
		retryPolicy.Wait(ctx, failures)
	}
	return context.Cause(ctx)
}

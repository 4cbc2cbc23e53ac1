// Package follow follows the feed of a log through transient errors of the log. [Feed] does so in
// the goroutine of its caller. A [Hub] wakes many waiters for the records of one space, with one
// goroutine, the follower of the space:
//
//	idle --Add--> following --Linger without a waiter--> idle
//	any --Retire, or the end of the follower with Once--> retired
//
// # When a follower ends
//
// A follower without a waiter ends after a time, and not after a number of records. With a number,
// the follower of a space without writes would never end, and would hold its goroutine and, with a
// remote log, a stream. The time also bounds the work for a busy space without waiters.
//
// # Guarantees
//
// A waiter is woken for each record of its keys that is committed after Add has returned. It may
// also be woken without such a record: for a record that was committed just before, and when the
// follower ends although there are waiters. That happens when the hub is retired, its owner closes
// or the log is closed.
//
// # Concurrency and ownership
//
// The methods of a Hub may be called from many goroutines. Its owner runs the follower and, when it
// closes, waits for it. The functions in the fields are called by the follower, by a method of the
// hub or by a timer.
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

// Feed calls record with each record that f selects and with those that are committed later, in
// order and in the goroutine of the caller. It ignores f.Follow. A record is valid until record
// returns.
//
// After an error of the log it calls failed, unless that is nil, and continues after the last
// record. The pause before that grows with each error in a row. Feed returns nil when record
// returns false, [mainstem.ErrClosed] when the log is closed, and the cause of ctx when ctx ends.
func Feed(ctx context.Context, log mainstem.Log, f mainstem.Filter, record func(*mainstem.Record) bool, failed func(error)) error {
	f.Follow = true
	failures := 0
	var rec mainstem.Record // declared once, since it escapes to record
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

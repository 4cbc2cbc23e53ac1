// Package follow reads the feed of a log for as long as its reader needs it, over
// errors of the log that pass.
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

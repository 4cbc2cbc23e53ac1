// Package outcome commits a batch until its outcome is known.
//
//	receipt, err := outcome.Commit(ctx, log, b)
//
// # Concurrency
//
// Commit may be called from many goroutines at a time; a batch belongs to one.
//
//snippet:var log mainstem.Log
//snippet:var b *mainstem.Batch
package outcome

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/uuid"
)

var pause = backoff.Policy{First: 20 * time.Millisecond, Max: time.Second, Jitter: 0.5}

// Commit commits b. While the outcome is unknown it commits the same batch again, after a pause. It
// returns an error of outcome Unknown only if ctx ends or the log is closed before the outcome is
// known, or if the log is a [mainstem.FailStopper], which takes no commits after it. If an earlier
// try has written the batch, its receipt is marked Duplicate.
//
// A batch without an ID gets one, unless the log is a FailStopper: there the first try is the only
// one, and an ID would cost the look for it and the record of its receipt.
//
// A later try that fails as not written, for lack of a connection for example, proves nothing about
// the earlier tries: the outcome stays unknown. Only an error that the log returns after it has
// looked for the ID proves that none of them was written.
func Commit(ctx context.Context, log mainstem.Log, b *mainstem.Batch) (mainstem.Receipt, error) {
	if f, ok := log.(mainstem.FailStopper); ok && f.FailStop() {
		return log.Commit(ctx, b)
	}
	if b.ID == "" {
		b.ID = "outcome/" + uuid.Sorted(time.Now().UnixMilli()).String()
	}
	var unknown error // of the last try of unknown outcome; nil if there is none
	for try := 1; ; try++ {
		r, err := log.Commit(ctx, b)
		switch {
		case err == nil:
			return r, nil
		case errors.Is(err, mainstem.ErrUnknownOutcome):
			unknown = err
		case unknown == nil || decided(err):
			return r, err
		}
		if errors.Is(err, mainstem.ErrClosed) || !pause.Wait(ctx, try) {
			return mainstem.Receipt{}, unknown
		}
	}
}

// decided reports whether err comes from the place of the batch in the order of the log, where the
// log looks for its ID first.
func decided(err error) bool {
	return errors.Is(err, mainstem.ErrConflict) || errors.Is(err, mainstem.ErrNotFound) || errors.Is(err, mainstem.ErrExists)
}

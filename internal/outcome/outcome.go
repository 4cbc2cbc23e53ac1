// Package outcome commits until it is known what became of the batch.
//
//	receipt, err := outcome.Commit(ctx, log, b)
//
// # Concurrency
//
// Everything here may be used by many goroutines at a time; a batch belongs to one.
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
)

var pause = backoff.Policy{First: 20 * time.Millisecond, Max: time.Second, Jitter: 0.5}

// Commit commits b, which must have an ID. While the outcome is unknown it commits the same batch
// again, until the outcome is known or ctx ends: only then is the error one of outcome Unknown.
// The receipt of a batch that an earlier try has written is marked Duplicate.
//
// A later try that was not written, for want of a connection for example, says nothing of the tries
// before it: the outcome stays unknown. Only a log that has looked for the ID says that none was written.
func Commit(ctx context.Context, log mainstem.Log, b *mainstem.Batch) (mainstem.Receipt, error) {
	var unknown error // of the last try of unknown outcome
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

// decided reports whether err comes from the place of the batch in the order, where its ID is known.
func decided(err error) bool {
	return errors.Is(err, mainstem.ErrConflict) || errors.Is(err, mainstem.ErrNotFound) || errors.Is(err, mainstem.ErrExists)
}

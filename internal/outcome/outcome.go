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
func Commit(ctx context.Context, log mainstem.Log, b *mainstem.Batch) (mainstem.Receipt, error) {
	for try := 1; ; try++ {
		r, err := log.Commit(ctx, b)
		if err == nil || !errors.Is(err, mainstem.ErrUnknownOutcome) || !pause.Wait(ctx, try) {
			return r, err
		}
	}
}

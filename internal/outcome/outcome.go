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
// known, if the log is a [mainstem.FailStopper], which takes no commits after it, or for a batch
// that had an ID, see below. If an earlier try has written the batch, its receipt is marked
// Duplicate.
//
// A batch without an ID gets one, unless the log is a FailStopper: there the first try is the only
// one, and an ID would cost the look for it and the record of its receipt.
//
// A later try that fails as not written proves nothing about the earlier tries: even if the log has
// looked for the ID, as it does before a conflict, an earlier request may still be on its way to it.
// So Commit then commits an empty batch with the ID. Either it gets the receipt of b, or the ID is
// taken and no earlier try can be written any more, which makes the error certain; b is then without
// an ID again. An ID that b had before is not taken, since the caller may use it for the next attempt
// at the same thing: such an error gets the outcome Unknown.
func Commit(ctx context.Context, log mainstem.Log, b *mainstem.Batch) (mainstem.Receipt, error) {
	if f, ok := log.(mainstem.FailStopper); ok && f.FailStop() {
		return log.Commit(ctx, b)
	}
	made := b.ID == ""
	if made {
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
		case unknown == nil:
			return r, err
		case decided(err) && !made:
			return r, uncertain(err)
		case decided(err):
			taken, ok := take(ctx, log, b)
			switch {
			case !ok:
				return mainstem.Receipt{}, unknown
			case len(taken.Versions) > 0: // and not the receipt of an earlier empty batch
				return taken, nil
			}
			b.ID = ""
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

// uncertain returns err with the outcome Unknown. It does not change err, which the log, or what
// explains its conflicts, may return again.
func uncertain(err error) error {
	var e *mainstem.Error
	switch {
	case !errors.As(err, &e):
		return err
	case err == error(e):
		return e.WithOutcome(mainstem.Unknown)
	}
	return &uncertainError{err, e.WithOutcome(mainstem.Unknown)}
}

// uncertainError is an error of a view. errors.As finds first the error of the log with the outcome
// Unknown, and then all that is in the chain of the view's.
type uncertainError struct {
	error
	log *mainstem.Error
}

func (e *uncertainError) Unwrap() []error { return []error{e.log, e.error} }

// take commits an empty batch with the ID of b, and returns the receipt of what has the ID. It
// returns false if ctx ends or the log is closed before that is known.
func take(ctx context.Context, log mainstem.Log, b *mainstem.Batch) (mainstem.Receipt, bool) {
	empty := mainstem.NewBatch()
	empty.ID, empty.Durability = b.ID, b.Durability
	for try := 1; ; try++ {
		r, err := log.Commit(ctx, empty)
		if err == nil {
			return r, true
		}
		if errors.Is(err, mainstem.ErrClosed) || !pause.Wait(ctx, try) {
			return mainstem.Receipt{}, false
		}
	}
}

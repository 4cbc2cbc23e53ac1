package alert

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
)

func closed() *mainstem.Error {
	return mainstem.Refusef(mainstem.KindClosed, "alert", "the server is closed")
}

// broken is an error of the mirror: the log is as it should be.
func broken(what string, err error) *mainstem.Error {
	return mainstem.Refusef(mainstem.KindInternal, "alert", "%s: %w", what, err)
}

// retriable reports whether a commit failed because the mirror was behind the log.
func retriable(err error) bool {
	var e *mainstem.Error
	return errors.As(err, &e) && e.Outcome != mainstem.Unknown && (e.Kind == mainstem.KindConflict || e.Kind == mainstem.KindNotFound)
}

func canceled(ctx context.Context) *mainstem.Error {
	return mainstem.Ended(ctx, "alert", time.Time{}, "").WithOutcome(mainstem.NotWritten)
}

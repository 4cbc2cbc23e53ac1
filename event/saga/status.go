package saga

import (
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// Status says where a saga stands. It is kept as text.
type Status string

// The statuses.
const (
	Started            Status = "started"             // its start event was handled, and nothing else yet
	Running            Status = "running"             // something was handled after the start event
	Completed          Status = "completed"           // Context.Complete
	Failed             Status = "failed"              // and there was nothing to compensate
	Compensating       Status = "compensating"        // it has failed, and compensations are being carried out
	Compensated        Status = "compensated"         // it has failed, and all compensations were carried out
	CompensationFailed Status = "compensation_failed" // it has failed, and so has one of the compensations at least
)

// Statuses are all of them.
var Statuses = []Status{Started, Running, Completed, Failed, Compensating, Compensated, CompensationFailed}

// ParseStatus reads a status.
func ParseStatus(s string) (Status, error) {
	if slices.Contains(Statuses, Status(s)) {
		return Status(s), nil
	}
	return "", mainstem.Refusef(mainstem.KindInvalid, "saga", "%.40q is no status: want one of %v", s, Statuses)
}

// live reports whether events and timeouts are handled.
func (s Status) live() bool { return s == Started || s == Running }

// retryable reports whether [Records.Retry] takes the saga up again.
func (s Status) retryable() bool {
	return s == Failed || s == Compensated || s == CompensationFailed
}

// ErrNotRetryable is the error of [Records.Retry] for a saga that is under way or completed. It is Conflict.
var ErrNotRetryable = mainstem.Errorf(mainstem.KindConflict, "retry saga", "only one that is failed, compensated or compensation_failed can be retried")

// notRetryable says which saga it is.
func notRetryable(id string, s Status) error {
	return fmt.Errorf("saga %.100q is %s: %w", id, s, ErrNotRetryable)
}

package saga

import (
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// Status is the status of a saga; see instance.go for the transitions. It is stored as this text.
type Status string

// The statuses.
const (
	Started            Status = "started"             // the start event was handled, and nothing else yet
	Running            Status = "running"             // an event or timeout was handled after the start event
	Completed          Status = "completed"           // Context.Complete was called
	Failed             Status = "failed"              // it has failed, and had no compensations
	Compensating       Status = "compensating"        // it has failed, and its compensations are being carried out
	Compensated        Status = "compensated"         // it has failed, and all compensations were carried out
	CompensationFailed Status = "compensation_failed" // it has failed, and at least one compensation was refused
)

// Statuses are all statuses. Do not change it.
var Statuses = []Status{Started, Running, Completed, Failed, Compensating, Compensated, CompensationFailed}

// ParseStatus returns the status with the text s, or an Invalid error.
func ParseStatus(s string) (Status, error) {
	if slices.Contains(Statuses, Status(s)) {
		return Status(s), nil
	}
	return "", mainstem.Refusef(mainstem.KindInvalid, "saga", "%.40q is no status: want one of %v", s, Statuses)
}

// live reports whether a saga in this status handles events and timeouts.
func (s Status) live() bool { return s == Started || s == Running }

// retryable reports whether [Records.Retry] continues a saga in this status.
func (s Status) retryable() bool {
	return s == Failed || s == Compensated || s == CompensationFailed
}

// ErrNotRetryable is the error of [Records.Retry] for a saga that has not failed, or is
// compensating. It is of kind Conflict.
var ErrNotRetryable = mainstem.Errorf(mainstem.KindConflict, "retry saga", "only one that is failed, compensated or compensation_failed can be retried")

// notRetryable returns ErrNotRetryable with the ID and the status of the saga.
func notRetryable(id string, s Status) error {
	return fmt.Errorf("saga %.100q is %s: %w", id, s, ErrNotRetryable)
}

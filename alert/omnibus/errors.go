package omnibus

import (
	"errors"
	"net/http"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
)

// statusError is an error that says how it is answered.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// failed is an error of the interface itself: nothing was run.
func failed(status int, k mainstem.Kind, format string, a ...any) error {
	return &statusError{status, mainstem.Refusef(k, "omnibus", format, a...)}
}

func badRequest(format string, a ...any) error {
	return failed(http.StatusBadRequest, mainstem.KindInvalid, format, a...)
}

func notFound(format string, a ...any) error {
	return failed(http.StatusNotFound, mainstem.KindNotFound, format, a...)
}

func tooLarge(format string, a ...any) error {
	return failed(http.StatusRequestEntityTooLarge, mainstem.KindInvalid, format, a...)
}

func denied(format string, a ...any) error {
	return failed(http.StatusForbidden, mainstem.KindDenied, format, a...)
}

func unavailable(format string, a ...any) error {
	return failed(http.StatusServiceUnavailable, mainstem.KindUnavailable, format, a...)
}

// The outcomes that an exception names: what became of what a request asked for.
const (
	outcomeNone    = "not written" // certainly nothing was changed
	outcomeUnknown = "unknown"     // it may have been carried out
	outcomePart    = "in part"     // the message says what was carried out
)

// outcomeFor returns what became of a request that failed with err, "" if it did not
// want to change anything.
func outcomeFor(err error) string {
	var e *mainstem.Error
	if !errors.As(err, &e) {
		return ""
	}
	var statement *alert.StatementError
	var part *alert.PartialError
	switch {
	case e.Outcome == mainstem.Unknown:
		return outcomeUnknown
	case e.Outcome == mainstem.NotWritten:
		return outcomeNone
	case errors.As(err, &part), errors.As(err, &statement) && statement.Changed > 0:
		return outcomePart
	}
	return ""
}

// statusFor returns the status that answers err.
func statusFor(err error) int {
	var s *statusError
	if errors.As(err, &s) {
		return s.status
	}
	if status, ok := statusOf[mainstem.KindOf(err)]; ok {
		return status
	}
	return http.StatusInternalServerError
}

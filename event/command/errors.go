package command

import (
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// ErrBusClosed is the error of commands that come after [Bus.Close]. It is Closed.
var ErrBusClosed error = mainstem.Refusef(mainstem.KindClosed, "dispatch", "the command bus is closed")

// HandlerNotFoundError says that nobody handles a type of command. It is NotFound.
type HandlerNotFoundError struct{ Type string }

// Error names the type.
func (e *HandlerNotFoundError) Error() string {
	return fmt.Sprintf("no handler is registered for command %.100q", e.Type)
}

// Unwrap makes it an error of kind NotFound.
func (e *HandlerNotFoundError) Unwrap() error {
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "dispatch", Outcome: mainstem.NotWritten}
}

// PanicError is a panic of a handler that [Recovery] caught. The writes that the handler had put
// into the batch were not committed.
type PanicError struct {
	Command string // the type
	Value   any    // what it panicked with
	Stack   []byte
}

// Error says what it panicked with, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("command %s: panic: %v", e.Command, e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ValidationError says what is wrong with one field of a command, or with all of it. It is Invalid.
type ValidationError struct {
	Command string // the type; [Validation] fills it in
	Field   string // "" if it is about the whole command
	Message string
	Err     error // the error that Validate returned, if it was of another type
}

// Invalid returns a [*ValidationError] about a field of a command, for its Validate.
func Invalid(field, format string, args ...any) error {
	return &ValidationError{Field: field, Message: fmt.Sprintf(format, args...)}
}

// Error names command and field.
func (e *ValidationError) Error() string {
	s := "command"
	if e.Command != "" {
		s += " " + e.Command
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	return s + ": " + e.Message
}

// Unwrap returns the cause, and an error of kind Invalid.
func (e *ValidationError) Unwrap() []error {
	kind := &mainstem.Error{Kind: mainstem.KindInvalid, Op: "validate", Outcome: mainstem.NotWritten}
	if e.Err == nil {
		return []error{kind}
	}
	return []error{e.Err, kind}
}

// mayTryAgain reports whether the same command may succeed when it is handled again: nothing
// of it was written, because somebody else was faster, or because the log was not available.
func mayTryAgain(err error) bool {
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Outcome == mainstem.Unknown {
		return false
	}
	switch e.Kind {
	case mainstem.KindConflict:
		return !isSealed(err)
	case mainstem.KindUnavailable:
		return e.Outcome == mainstem.NotWritten
	}
	return false
}

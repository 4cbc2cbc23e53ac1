package command

import (
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// ErrBusClosed is the error of commands that are dispatched after [Bus.Close]. It is Closed.
var ErrBusClosed error = mainstem.Refusef(mainstem.KindClosed, "dispatch", "the command bus is closed")

// HandlerNotFoundError reports a command of a type that has no handler. It is NotFound.
type HandlerNotFoundError struct{ Type string }

// Error names the type.
func (e *HandlerNotFoundError) Error() string {
	return fmt.Sprintf("no handler is registered for command %.100q", e.Type)
}

// Unwrap makes it an error of kind NotFound.
func (e *HandlerNotFoundError) Unwrap() error {
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "dispatch", Outcome: mainstem.NotWritten}
}

// PanicError is a panic of a handler that [Recovery] caught. Nothing of the handler's batch was
// written.
type PanicError struct {
	Command string // its type
	Value   any    // the argument of panic
	Stack   []byte // of the goroutine, as by debug.Stack
}

// Error names the command and the panic value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("command %s: panic: %v", e.Command, e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ValidationError reports what is invalid in one field of a command, or in the whole command. It is
// Invalid.
type ValidationError struct {
	Command string // its type, set by [Validation]
	Field   string // "" for the whole command
	Message string
	Err     error // the error that Validate returned, unless that was a ValidationError
}

// Invalid returns a [*ValidationError] for a field of a command; Validate methods return it.
func Invalid(field, format string, args ...any) error {
	return &ValidationError{Field: field, Message: fmt.Sprintf(format, args...)}
}

// Error names the command and the field.
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

// Unwrap returns Err, if set, and an error of kind Invalid.
func (e *ValidationError) Unwrap() []error {
	kind := &mainstem.Error{Kind: mainstem.KindInvalid, Op: "validate", Outcome: mainstem.NotWritten}
	if e.Err == nil {
		return []error{kind}
	}
	return []error{e.Err, kind}
}

// mayTryAgain reports whether a command that failed with err may succeed if it is handled again.
// Nothing of it was written, because of a conflict or because the log was unavailable.
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

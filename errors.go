package mainstem

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Kind classifies errors. The list is closed. Kinds are sent over the wire and logged by name: add
// new ones only at the end.
type Kind uint8

// The kinds.
const (
	KindInternal    Kind = iota // a bug, or something no other kind describes
	KindNotFound                // no such space, key, version or snapshot
	KindExists                  // the space, key or other object exists already
	KindConflict                // a condition of a batch did not hold; see Error.Want and Error.Got
	KindInvalid                 // the request can never succeed as it is: a limit, a malformed argument
	KindDenied                  // authentication or authorisation failed
	KindCanceled                // the context was cancelled or its deadline passed; see Ended
	KindClosed                  // the log, snapshot or handle was closed
	KindCorrupt                 // stored bytes are not what was written
	KindUnavailable             // the call may succeed later: a full disk, a lost connection, a log that went read-only
	KindUnsupported             // this engine does not offer the feature
)

var kindNames = [...]string{"internal", "not found", "exists", "conflict", "invalid", "denied", "canceled", "closed", "corrupt", "unavailable", "unsupported"}

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown kind"
}

// ParseKind is the inverse of [Kind.String]; an unknown name is KindInternal and false.
func ParseKind(s string) (Kind, bool) {
	for i, n := range kindNames {
		if n == s {
			return Kind(i), true
		}
	}
	return KindInternal, false
}

// Sentinels for errors.Is: each matches every [Error] of its kind.
var (
	ErrNotFound    error = kindError(KindNotFound)
	ErrExists      error = kindError(KindExists)
	ErrConflict    error = kindError(KindConflict)
	ErrInvalid     error = kindError(KindInvalid)
	ErrDenied      error = kindError(KindDenied)
	ErrCanceled    error = kindError(KindCanceled)
	ErrClosed      error = kindError(KindClosed)
	ErrCorrupt     error = kindError(KindCorrupt)
	ErrUnavailable error = kindError(KindUnavailable)
	ErrUnsupported error = kindError(KindUnsupported)

	// ErrUnknownOutcome matches every Error whose Outcome is [Unknown]: its batch may have been
	// written.
	ErrUnknownOutcome = errors.New("outcome unknown")
)

type kindError Kind

func (k kindError) Error() string { return Kind(k).String() }

// Outcome says whether the batch of a failed Commit was written (law 5).
type Outcome uint8

// The outcomes. The zero Outcome is for errors of reads.
const (
	NoOutcome  Outcome = iota // the call does not write
	NotWritten                // certainly nothing was written: it is safe to try again
	Unknown                   // the batch may have been written; a batch ID makes trying again safe
)

// String returns "", "not written" or "outcome unknown".
func (o Outcome) String() string {
	switch o {
	case NotWritten:
		return "not written"
	case Unknown:
		return "outcome unknown"
	}
	return ""
}

// Error is the error of every call of the contract. Find it with errors.As, or
// test its kind with errors.Is and the sentinels. It shares no memory with the
// caller's batch or keys. [Errorf] and [Refusef] make one.
type Error struct {
	Kind    Kind
	Op      string // the failed operation: "commit", "get", "open data/"
	Space   string
	Key     []byte
	Outcome Outcome

	// Want and Got explain a Conflict. Want is the condition that did not hold, and Got the key's
	// version, 0 if it was never written. GotLive says whether the key had a live value. If Want is
	// a [TestNotAfter], GotPosition is the position of the newest record ever written to the key.
	Want        Condition
	Got         Version
	GotLive     bool
	GotPosition Position

	Hint string // what an operator can do, or ""
	Err  error  // the cause, or nil
}

// Errorf returns an Error of kind k for the operation op, whose cause is the error of [fmt.Errorf]
// for format and args; %w wraps as usual. If format is exactly "%w", its argument is the cause
// itself. The outcome is [NoOutcome], as for a read: for a call that writes use [Refusef] or
// [Error.WithOutcome].
func Errorf(k Kind, op, format string, args ...any) *Error {
	if format == "%w" && len(args) == 1 {
		if err, ok := args[0].(error); ok {
			return &Error{Kind: k, Op: op, Err: err}
		}
	}
	return &Error{Kind: k, Op: op, Err: fmt.Errorf(format, args...)}
}

// Refusef is [Errorf] for a call that failed before it wrote anything: the outcome is [NotWritten].
func Refusef(k Kind, op, format string, args ...any) *Error {
	e := Errorf(k, op, format, args...)
	e.Outcome = NotWritten
	return e
}

// At returns a copy of the error that names a space and one of its keys. The key may be nil; it is
// copied.
func (e *Error) At(space string, key []byte) *Error {
	c := *e
	c.Space, c.Key = space, bytes.Clone(key)
	return &c
}

// WithHint returns a copy of the error with a hint on what an operator can do.
func (e *Error) WithHint(hint string) *Error {
	c := *e
	c.Hint = hint
	return &c
}

// WithOutcome returns a copy of the error with another outcome.
func (e *Error) WithOutcome(o Outcome) *Error {
	c := *e
	c.Outcome = o
	return &c
}

// Error formats the error on one line: op, space and key, kind, cause, outcome, hint.
func (e *Error) Error() string {
	var s strings.Builder
	if e.Op != "" {
		s.WriteString(e.Op + ": ")
	}
	if e.Space != "" {
		s.WriteString("space " + e.Space + ": ")
	}
	if len(e.Key) > 0 {
		fmt.Fprintf(&s, "key %.64q: ", e.Key)
	}
	switch {
	case e.Kind == KindConflict:
		fmt.Fprintf(&s, "conflict: want %s, got %s", e.Want.want(), e.got())
	case e.Err != nil && e.Kind == KindCanceled:
		s.WriteString(canceledText(e.Err))
	case e.Err != nil && e.Kind == KindInternal:
		s.WriteString(e.Err.Error())
	case e.Err != nil:
		fmt.Fprintf(&s, "%s: %s", e.Kind, e.Err)
	default:
		s.WriteString(e.Kind.String())
	}
	if e.Outcome == Unknown {
		s.WriteString(" (outcome unknown: the batch may have been written)")
	}
	if e.Hint != "" {
		s.WriteString("; " + e.Hint)
	}
	return s.String()
}

func (e *Error) got() string {
	switch {
	case e.Want.Test == TestNotAfter:
		return fmt.Sprintf("position %d", e.GotPosition)
	case e.Got == 0:
		return "absent"
	case !e.GotLive:
		return fmt.Sprintf("version %d, deleted", e.Got)
	}
	return fmt.Sprintf("version %d", e.Got)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the sentinel of the error's kind, or is [ErrUnknownOutcome] and the
// outcome is unknown.
func (e *Error) Is(target error) bool {
	if target == ErrUnknownOutcome {
		return e.Outcome == Unknown
	}
	k, ok := target.(kindError)
	return ok && Kind(k) == e.Kind
}

// KindOf returns the kind of the first [Error] in the chain of err, or KindInternal if there is
// none. KindOf(nil) is KindInternal too: test err != nil first.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}

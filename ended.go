package mainstem

import (
	"context"
	"errors"
	"strings"
	"time"
)

// DeadlineError is the cause of the error of a call whose deadline passed. It
// matches [context.DeadlineExceeded] and never [context.Canceled].
type DeadlineError struct {
	After   time.Duration // how long the call had waited; 0 if that is not known
	Waiting string        // what the call waited for, such as "the commit to be written"; may be empty
}

// Error returns for instance "deadline exceeded after 15 s, waiting for the commit to be written".
func (e *DeadlineError) Error() string {
	text := "deadline exceeded"
	if e.After > 0 {
		text += " after " + seconds(e.After)
	}
	if e.Waiting != "" {
		text += ", waiting for " + e.Waiting
	}
	return text
}

// Unwrap returns [context.DeadlineExceeded].
func (e *DeadlineError) Unwrap() error { return context.DeadlineExceeded }

// Timeout returns true. It is the method of net.Error.
func (e *DeadlineError) Timeout() bool { return true }

// seconds formats d with few digits: "15 s", "1.2 s", "40 ms".
func seconds(d time.Duration) string {
	switch {
	case d >= 2*time.Minute:
		return d.Round(time.Second).String()
	case d >= 100*time.Millisecond:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(time.Millisecond)
	default:
		d = time.Millisecond
	}
	switch {
	case d >= time.Minute:
		return d.String()
	case d >= time.Second:
		return strings.TrimSuffix(d.String(), "s") + " s"
	}
	return strings.TrimSuffix(d.String(), "ms") + " ms"
}

// Ended returns an error of kind Canceled for a call to op that gave up because ctx had ended.
// errors.Is finds [context.DeadlineExceeded] in it if a deadline passed, [context.Canceled] if ctx
// was cancelled, and the error of [context.Cause].
//
// After a deadline the text says what the call waited for and, unless began (the start of the wait)
// is zero, for how long. A cause that is a [*DeadlineError] without Waiting, as set by
// [context.WithTimeoutCause], keeps its time. Engines and views use Ended, so that their texts are
// alike. The caller sets the outcome.
func Ended(ctx context.Context, op string, began time.Time, waiting string) *Error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case err == nil: // two contexts raced: the caller saw the end of another one
		err, cause = context.Canceled, context.Canceled
	case cause == context.DeadlineExceeded:
		d := &DeadlineError{Waiting: waiting}
		if !began.IsZero() {
			d.After = max(time.Since(began), 1)
		}
		cause = d
	default:
		if d, ok := cause.(*DeadlineError); ok && d.Waiting == "" {
			cause = &DeadlineError{After: d.After, Waiting: waiting}
		}
	}
	if !errors.Is(cause, err) {
		cause = &endError{cause, err}
	}
	return &Error{Kind: KindCanceled, Op: op, Err: cause}
}

// endError is a cause set by [context.WithCancelCause] or its like, with the error of the context.
type endError struct{ cause, end error }

func (e *endError) Error() string   { return e.cause.Error() }
func (e *endError) Unwrap() []error { return []error{e.cause, e.end} }

// canceledText is the text of an error of kind Canceled. It does not call a deadline a
// cancellation.
func canceledText(cause error) string {
	if !errors.Is(cause, context.DeadlineExceeded) {
		if cause == context.Canceled {
			return KindCanceled.String()
		}
		return KindCanceled.String() + ": " + cause.Error()
	}
	const exceeded = "deadline exceeded"
	switch text := cause.Error(); {
	case cause == context.DeadlineExceeded:
		return exceeded
	case strings.HasPrefix(text, exceeded):
		return text
	default:
		return exceeded + ": " + text
	}
}

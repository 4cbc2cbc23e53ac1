package alert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
)

// fail is an error of this package about a statement: certainly nothing was written.
func fail(k mainstem.Kind, format string, a ...any) *mainstem.Error {
	return &mainstem.Error{Kind: k, Op: "alert", Outcome: mainstem.NotWritten, Err: fmt.Errorf(format, a...)}
}

func invalid(format string, a ...any) *mainstem.Error {
	return fail(mainstem.KindInvalid, format, a...)
}

func corrupt(space string, key []byte, err error) *mainstem.Error {
	return &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "alert", Space: space, Key: append([]byte(nil), key...), Err: err}
}

func closed() *mainstem.Error { return fail(mainstem.KindClosed, "the server is closed") }

// broken is an error of the mirror: the log is as it should be.
func broken(what string, err error) *mainstem.Error {
	return &mainstem.Error{Kind: mainstem.KindInternal, Op: "alert", Outcome: mainstem.NotWritten, Err: fmt.Errorf("%s: %w", what, err)}
}

// retriable reports whether a commit failed because the mirror was behind the log.
func retriable(err error) bool {
	var e *mainstem.Error
	return errors.As(err, &e) && e.Outcome != mainstem.Unknown && (e.Kind == mainstem.KindConflict || e.Kind == mainstem.KindNotFound)
}

func canceled(ctx context.Context) *mainstem.Error {
	e := mainstem.Ended(ctx, "alert", time.Time{}, "")
	e.Outcome = mainstem.NotWritten
	return e
}

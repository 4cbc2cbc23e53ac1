package readmodelpg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

const op = "read model in PostgreSQL"

// refuse returns the reason of a refusal. The caller adds the kind.
func refuse(format string, args ...any) error { return fmt.Errorf(format, args...) }

// kindOf returns the kind of an error with a SQLSTATE.
func kindOf(state string) mainstem.Kind {
	switch class := state[:min(2, len(state))]; {
	case state == "23505":
		return mainstem.KindExists
	case state == "40001", state == "40P01":
		return mainstem.KindConflict
	case state == "42P01", state == "42703", state == "3F000":
		return mainstem.KindUnavailable // a table, column or schema that existed at Open
	case state == "42501", class == "28":
		return mainstem.KindDenied
	case class == "22", class == "23", class == "42", state == "54000":
		return mainstem.KindInvalid
	case state == "XX001", state == "XX002":
		return mainstem.KindCorrupt
	case class == "08", class == "25", class == "53", class == "55", class == "57", class == "58":
		return mainstem.KindUnavailable
	}
	return mainstem.KindInternal
}

// explain returns an error of PostgreSQL, or of the connection, as a [*mainstem.Error] or a
// [*ConflictError]. Errors that are of this module already are returned as they are. If writes is
// set, the error has an outcome: Unknown if the answer to the statement was lost.
func explain(ctx context.Context, table string, writes bool, err error) error {
	var own *mainstem.Error
	var field *readmodel.FieldError
	if err == nil || errors.As(err, &own) || errors.As(err, &field) {
		return err
	}
	outcome := mainstem.NoOutcome
	if writes {
		outcome = outcomeOf(err)
	}
	if ctx.Err() != nil {
		return mainstem.Ended(ctx, op, time.Time{}, "an answer of PostgreSQL").WithOutcome(outcome)
	}
	e := mainstem.Errorf(mainstem.KindUnavailable, op, "table %s: %w", table, err).WithOutcome(outcome)
	var server *pgconn.PgError
	if errors.As(err, &server) {
		if e.Kind = kindOf(server.Code); e.Kind == mainstem.KindConflict {
			return &ConflictError{fmt.Sprintf("table %s: %v", table, server)}
		}
		if server.Detail != "" {
			e.Err = fmt.Errorf("%w: %s", e.Err, server.Detail)
		}
		if server.Code == "42P01" || server.Code == "42703" || server.Code == "3F000" {
			e.Hint = "the table was changed since it was opened: open it again"
		}
	}
	return e
}

// outcomeOf returns the outcome of a statement or commit that failed. It is NotWritten after an
// error of the server, or if the statement was certainly not sent. If the connection broke later,
// or the statement was canceled, it is Unknown.
func outcomeOf(err error) mainstem.Outcome {
	var server *pgconn.PgError
	if pgconn.SafeToRetry(err) || errors.As(err, &server) && server.Code != "57014" && server.SeverityUnlocalized != "FATAL" && server.SeverityUnlocalized != "PANIC" {
		return mainstem.NotWritten
	}
	return mainstem.Unknown
}

// ConflictError reports that a condition of a commit did not hold in the database. It is of kind
// Conflict: nothing was written.
type ConflictError struct{ Reason string }

// Error returns the reason.
func (c *ConflictError) Error() string { return op + ": conflict: " + c.Reason }

// Unwrap makes the error one of kind Conflict.
func (c *ConflictError) Unwrap() error {
	return &mainstem.Error{Kind: mainstem.KindConflict, Op: op, Outcome: mainstem.NotWritten}
}

package pglog

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstemdev/mainstem"
)

// kindOf returns what kind of error a SQLSTATE is, with a hint for the operator.
func kindOf(state string) (kind mainstem.Kind, hint string) {
	switch class := state[:min(2, len(state))]; {
	case state == "53100":
		return mainstem.KindUnavailable, "free disk space on the PostgreSQL server"
	case state == "53300":
		return mainstem.KindUnavailable, "raise max_connections of the PostgreSQL server, or lower Conns and HeldConns"
	case state == "25006":
		return mainstem.KindUnavailable, "the server is a standby or read-only: connect to the primary, for instance with target_session_attrs=read-write"
	case state == "3F000", state == "42P01", state == "42883":
		return mainstem.KindUnavailable, "the tables of the log are gone: open it again"
	case class == "28", state == "42501":
		return mainstem.KindDenied, ""
	case state == "3D000":
		return mainstem.KindNotFound, "create the database"
	case state == "XX001", state == "XX002":
		return mainstem.KindCorrupt, "check the PostgreSQL server and restore from a backup"
	case class == "08", class == "53", class == "57", class == "58", class == "40", state == "55P03", state == "25P03":
		return mainstem.KindUnavailable, ""
	}
	return mainstem.KindInternal, ""
}

// mapError turns an error of PostgreSQL or the connection to it into one of the contract.
func (l *Log) mapError(ctx context.Context, op string, err error) error {
	var own *mainstem.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	if ctx.Err() != nil {
		if l.life.Err() != nil {
			return &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
		}
		return mainstem.Ended(ctx, op, time.Time{}, "an answer of PostgreSQL")
	}
	if l.closing.Load() {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	}
	return explain(op, err)
}

// explain is mapError for errors that have nothing to do with a context.
func explain(op string, err error) *mainstem.Error {
	e := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: op, Err: err}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		e.Kind, e.Hint = kindOf(server.Code)
	}
	return e
}

// What may be known about a commit that failed.
type fate uint8

const (
	refused fate = iota // it certainly changed nothing; trying again would not help
	again               // it certainly changed nothing, and may succeed if tried again
	lost                // it may have been committed
)

// fateOf judges the error of a commit. The server refuses a statement with severity
// ERROR and has rolled it back then; only a canceled one may have been canceled after it
// was committed. After FATAL, or when the connection breaks, nobody knows.
func fateOf(err error) fate {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		switch {
		case server.Code == "57014" || cmp.Or(server.SeverityUnlocalized, server.Severity) != "ERROR":
			return lost
		case server.Code == "40001" || server.Code == "40P01":
			return again
		}
		return refused
	}
	if pgconn.SafeToRetry(err) {
		return again
	}
	return lost
}

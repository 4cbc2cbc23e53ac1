package coordinator

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

// Code is what went wrong, as answers name it.
type Code string

// The codes.
const (
	CodeUnknown     Code = "ERR_UNKNOWN"
	CodeTimeout     Code = "ERR_TIMEOUT"
	CodeUnavailable Code = "ERR_UNAVAILABLE"
	CodeSystem      Code = "ERR_SYSTEM"
	CodeNotFound    Code = "ERR_NOT_FOUND"
	CodeValidation  Code = "ERR_VALIDATION"
	CodeArgument    Code = "ERR_INVALID_ARGUMENT"
	CodeOperation   Code = "ERR_INCORRECT_OPERATION"
	CodePrivileges  Code = "ERR_INSUFFICIENT_PRIVILEGES"
)

// statuses are what codes are answered with when a whole request fails.
var statuses = map[Code]int{
	CodeUnknown: http.StatusInternalServerError,
	CodeTimeout: http.StatusServiceUnavailable, CodeUnavailable: http.StatusServiceUnavailable, CodeSystem: http.StatusServiceUnavailable,
	CodeNotFound: http.StatusBadRequest, CodeValidation: http.StatusBadRequest, CodeArgument: http.StatusBadRequest, CodeOperation: http.StatusBadRequest,
	CodePrivileges: http.StatusForbidden,
}

// codes are what kinds of errors of a cluster become.
var codes = map[mainstem.Kind]Code{
	mainstem.KindInternal: CodeUnknown, mainstem.KindNotFound: CodeNotFound, mainstem.KindExists: CodeOperation, mainstem.KindConflict: CodeOperation,
	mainstem.KindInvalid: CodeArgument, mainstem.KindDenied: CodePrivileges, mainstem.KindCanceled: CodeTimeout, mainstem.KindClosed: CodeUnavailable,
	mainstem.KindCorrupt: CodeSystem, mainstem.KindUnavailable: CodeUnavailable, mainstem.KindUnsupported: CodeOperation,
}

// messages are what codes mean, in words; the reason says more.
var messages = map[Code]string{
	CodeUnknown: "the cluster failed", CodeTimeout: "the cluster did not answer in time", CodeUnavailable: "the cluster is not available",
	CodeSystem: "the cluster's answer makes no sense", CodeNotFound: "there is no such thing", CodeArgument: "the statement was refused",
	CodeOperation: "the statement cannot be carried out", CodePrivileges: "the user may not do that",
}

// noConnection is the message of a cluster that no connection could be made to,
// which is also what a wrong password is.
const noConnection = "cannot connect any addr"

// connectError is an error of connecting or logging in, as opposed to one of a statement.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// problem is an error as it is answered.
type problem struct {
	code            Code
	message, reason string
}

// problemOf says how an error of a cluster is answered.
func problemOf(err error) problem {
	var connect *connectError
	kind := mainstem.KindOf(err)
	switch {
	case errors.As(err, &connect) && kind != mainstem.KindCanceled && kind != mainstem.KindInvalid:
		return problem{CodeUnavailable, noConnection, err.Error()}
	default:
		code := codes[kind]
		return problem{code, messages[code], err.Error()}
	}
}

// append appends the problem as JSON.
func (p *problem) append(b []byte) []byte {
	b = append(b, `{"error":`...)
	b = rowjson.AppendString(b, string(p.code))
	b = append(b, `,"message":`...)
	b = rowjson.AppendString(b, p.message)
	if p.reason != "" {
		b = append(b, `,"reason":`...)
		b = rowjson.AppendString(b, p.reason)
	}
	return append(b, '}')
}

// refusedLogin reports whether err says that the name or the password is wrong.
func refusedLogin(err error) bool {
	var s *omnirest.StatusError
	return errors.As(err, &s) && s.Status == http.StatusUnauthorized
}

// lost reports whether err is about the server or the connection, and not about the statement.
func lost(err error) bool {
	switch mainstem.KindOf(err) {
	case mainstem.KindUnavailable, mainstem.KindClosed, mainstem.KindCorrupt:
		return true
	}
	return false
}

// answerError is an error that a server in this process answered a statement with.
type answerError struct{ err error }

func (e *answerError) Error() string { return e.err.Error() }
func (e *answerError) Unwrap() error { return e.err }

// isAnswer reports whether err is an answer of the server, though it may make no sense: the
// server was reached, and a check says whether it is well.
func isAnswer(err error) bool {
	var status *omnirest.StatusError
	var own *answerError
	return errors.As(err, &status) || errors.As(err, &own) || mainstem.KindOf(err) == mainstem.KindCorrupt
}

func canceled(ctx context.Context) error {
	return mainstem.Ended(ctx, "coordinator", time.Time{}, "a connection to a server").WithOutcome(mainstem.NotWritten)
}

package natslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/redact"
)

// errClosed ends what a closed log was doing.
var errClosed = errors.New("the log is closed")

func openInvalid(address, format string, args ...any) *mainstem.Error {
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "open " + redact.Address(address), Err: redact.Error(fmt.Errorf(format, args...), address)}
}

// mapError turns an error of the client or the server into one of the contract.
func mapError(op string, err error) *mainstem.Error {
	var own *mainstem.Error
	if errors.As(err, &own) {
		return own
	}
	e := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: op, Err: err}
	var api *jetstream.APIError
	switch {
	case errors.Is(err, errClosed):
		e.Kind = mainstem.KindClosed
	case errors.Is(err, context.Canceled):
		e.Kind = mainstem.KindCanceled
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrPermissionViolation):
		e.Kind = mainstem.KindDenied
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		e.Hint = "is JetStream enabled on the server and for the account, and does the stream have a leader?"
	case errors.As(err, &api):
		if isInvalid(api.Code, int(api.ErrorCode)) {
			e.Kind = mainstem.KindInvalid
		}
		e.Hint = hintFor(int(api.ErrorCode))
	}
	return e
}

// Errors of the server that its status alone classifies wrongly, by their codes in
// errors.json of nats-server.
const (
	codeNoPeers       = 10005 // 400: too few servers for a stream, for example while a cluster starts
	codeMemberChange  = 10202 // 400: servers join or leave the cluster just now
	codeInvalidStream = 10052 // 500: the configuration of a stream
	codeNoReplicas    = 10074 // 500: replicas without a cluster
)

// isInvalid reports whether the server refused a request for what it says, so that it is
// of no use to send it again. Everything else may pass: elections, servers that have not
// yet joined, lack of resources (10008, 10009, 10023 and others), too many requests.
func isInvalid(status, code int) bool {
	switch code {
	case codeNoPeers, codeMemberChange:
		return false
	case codeInvalidStream, codeNoReplicas:
		return true
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}

// hintFor returns what an operator can do about an error of the server, or "".
func hintFor(code int) string {
	switch code {
	case codeNoPeers:
		return "too few servers can keep the stream: are enough of them running for its replicas, and do they have room and match the cluster and the tags of its placement?"
	case codeNoReplicas:
		return "replicas need servers that form a cluster"
	}
	return ""
}

// ended is the error of a call whose context, or else whose log, ended while it waited.
func (l *Log) ended(ctx context.Context, op string, began time.Time, waiting string) *mainstem.Error {
	if l.ctx.Err() != nil {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: op, Err: errClosed}
	}
	return mainstem.Ended(ctx, op, began, waiting)
}

// explain is the error of a read that failed with err under ctx.
func (l *Log) explain(ctx context.Context, op, space string, key []byte, err error) *mainstem.Error {
	var e mainstem.Error
	if l.ctx.Err() != nil || ctx.Err() != nil {
		e = *l.ended(ctx, op, time.Time{}, "an answer of NATS")
	} else {
		e = *mapError(op, err)
		if errors.Is(err, context.DeadlineExceeded) { // the engine's, not the caller's
			e.Err = &mainstem.DeadlineError{After: l.opts.Timeout, Waiting: "an answer of NATS"}
		}
	}
	e.Op, e.Space, e.Key = op, space, bytes.Clone(key)
	return &e
}

// notWritten marks err as that of a call that certainly wrote nothing.
func notWritten(err error) error { return withOutcome(err, mainstem.NotWritten) }

func withOutcome(err error, o mainstem.Outcome) error {
	var e *mainstem.Error
	if !errors.As(err, &e) {
		e = mapError("commit", err)
	}
	return e.WithOutcome(o)
}

package natskv

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
)

var (
	errClosed       = errors.New("the store is closed")
	errTimeout      = errors.New("no answer in time")
	errNoResponders = errors.New("no server answers for the bucket")
	errNoMessage    = errors.New("no message")
	errNoBucket     = errors.New("the bucket does not exist")
	errEmptyKey     = errors.New("the key is empty")
	errDeleted      = errors.New("the key has no value")
)

// kindOf maps errors of NATS to the contract's kinds.
func kindOf(err error) mainstem.Kind {
	var api *apiError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return mainstem.KindCanceled
	case errors.Is(err, errClosed), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining):
		return mainstem.KindClosed
	case errors.Is(err, errNoMessage), errors.Is(err, errNoBucket), errors.Is(err, errDeleted):
		return mainstem.KindNotFound
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, errEmptyKey), errors.Is(err, nats.ErrBadSubject):
		return mainstem.KindInvalid
	case errors.Is(err, nats.ErrPermissionViolation), errors.Is(err, nats.ErrAuthorization):
		return mainstem.KindDenied
	case errors.Is(err, errTimeout), errors.Is(err, errNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrStaleConnection):
		return mainstem.KindUnavailable
	case errors.As(err, &api):
		return api.kind()
	}
	return mainstem.KindInternal
}

func (e *apiError) kind() mainstem.Kind {
	switch e.ErrCode {
	case codeStreamNotFound, codeNoMessage:
		return mainstem.KindNotFound
	case codeTooLarge, codeTTLInvalid, codeTTLDisabled, codeAtomicDisabled:
		return mainstem.KindInvalid
	case codeMaxBytes, codeMaxConsumers:
		return mainstem.KindUnavailable
	case codeNotEnabled, codeNotForAccount:
		return mainstem.KindUnsupported
	}
	switch {
	case e.Code == 404:
		return mainstem.KindNotFound
	case e.Code == 401 || e.Code == 403:
		return mainstem.KindDenied
	case e.Code == 400:
		return mainstem.KindInvalid
	case e.Code >= 500:
		return mainstem.KindUnavailable
	}
	return mainstem.KindInternal
}

// fail is the error of an operation on a bucket. An error that has a kind keeps it.
func (s *stream) fail(op, key string, err error) error {
	var known *mainstem.Error
	if errors.As(err, &known) {
		return err
	}
	e := &mainstem.Error{Kind: kindOf(err), Op: op, Space: s.bucket, Err: err}
	if key != "" {
		e.Key = []byte(key)
	}
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		e.Hint = fmt.Sprintf("the server takes messages of at most %d bytes: raise its max_payload, or open the table with Large: LargeObjects", s.store.nc.MaxPayload())
	case errors.Is(err, errTimeout), errors.Is(err, errNoResponders):
		e.Hint = "is JetStream up, and has the bucket a leader?"
	case isCode(err, codeMaxBytes):
		e.Hint = "the bucket may have reached its max_bytes"
	case isCode(err, codeMaxConsumers):
		e.Hint = "an index, and each watch, is a consumer of the stream: raise its max_consumers, or the account's"
	}
	return e
}

// failWrite is fail for a write, which says whether it may have happened.
func (s *stream) failWrite(op, key string, sent bool, err error) error {
	out := s.fail(op, key, err)
	e, ok := out.(*mainstem.Error)
	if !ok || e.Outcome != mainstem.NoOutcome {
		return out
	}
	var api *apiError
	if sent && !errors.As(err, &api) {
		return e.WithOutcome(mainstem.Unknown)
	}
	return e.WithOutcome(mainstem.NotWritten) // a copy: others may have the same error
}

// unansweredError is the error of a request that changes a bucket, and may have done so. It
// says nothing of a write that wanted the bucket changed first.
type unansweredError struct{ error }

func (e unansweredError) Unwrap() error { return e.error }

// unanswered returns err, as an unansweredError if the request was sent.
func unanswered(sent bool, err error) error {
	if sent && err != nil {
		return unansweredError{err}
	}
	return err
}

// failChange is failWrite for a call that does no more than create or change the bucket.
func (s *stream) failChange(op string, err error) error {
	var e unansweredError
	return s.failWrite(op, "", errors.As(err, &e), err)
}

package producer

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// refusal is the error of a request that is refused: one of Kafka's error codes, and a message with
// the reason.
type refusal struct {
	kind    *kerr.Error
	message string
}

// Error returns Kafka's name of the error and the message.
func (r *refusal) Error() string { return r.kind.Message + ": " + r.message }

func refuse(kind *kerr.Error, message string) *refusal { return &refusal{kind, message} }

// reasonCodes are the error codes of invalid record batches.
var reasonCodes = map[recordbatch.Reason]*kerr.Error{
	recordbatch.Corrupt:      kerr.CorruptMessage,
	recordbatch.OldFormat:    kerr.UnsupportedForMessageFormat,
	recordbatch.TooLarge:     kerr.MessageTooLarge,
	recordbatch.UnknownCodec: kerr.UnsupportedCompressionType,
	recordbatch.BadTimestamp: kerr.InvalidTimestamp,
	recordbatch.BadRecord:    kerr.InvalidRecord,
}

// codeOf returns the error code of err for a Produce request.
func codeOf(err error) *kerr.Error {
	var r *refusal
	if errors.As(err, &r) {
		return r.kind
	}
	var why *recordbatch.Error
	if errors.As(err, &why) {
		if k, ok := reasonCodes[why.Reason]; ok {
			return k
		}
		return kerr.InvalidRecord
	}
	if errors.Is(err, mainstem.ErrUnknownOutcome) {
		return kerr.KafkaStorageError // clients send the batch again
	}
	switch mainstem.KindOf(err) {
	case mainstem.KindNotFound:
		return kerr.UnknownTopicOrPartition
	case mainstem.KindInvalid: // the batch itself is valid: it exceeds a limit of the log
		return kerr.MessageTooLarge
	case mainstem.KindDenied:
		return kerr.TopicAuthorizationFailed
	case mainstem.KindCanceled:
		return kerr.RequestTimedOut
	case mainstem.KindClosed, mainstem.KindUnavailable:
		return kerr.KafkaStorageError
	}
	return kerr.UnknownServerError
}

// code returns the error code of err for requests to the coordinator, and logs err, because the
// client gets only the code. After a failure of the log that may pass, clients try again.
func (m *Manager) code(op string, err error) int16 {
	var r *refusal
	if errors.As(err, &r) {
		m.o.Logger.Debug("transaction request refused", "request", op, "error", r)
		return r.kind.Code
	}
	m.o.Logger.Warn("transaction request failed", "request", op, "error", err)
	if errors.Is(err, mainstem.ErrUnknownOutcome) {
		return kerr.CoordinatorNotAvailable.Code
	}
	switch mainstem.KindOf(err) {
	case mainstem.KindNotFound:
		return kerr.UnknownTopicOrPartition.Code
	case mainstem.KindInvalid:
		return kerr.InvalidRequest.Code
	case mainstem.KindConflict:
		return kerr.ConcurrentTransactions.Code
	case mainstem.KindCanceled, mainstem.KindClosed, mainstem.KindUnavailable:
		return kerr.CoordinatorNotAvailable.Code
	}
	return kerr.UnknownServerError.Code
}

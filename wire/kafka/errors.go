package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// codeOf returns Kafka's code for an error of a view or of the log, 0 for nil. For a failure
// that the client has not caused it is a code upon which clients try again, or
// UNKNOWN_SERVER_ERROR for a kind that is not expected here.
func codeOf(err error) int16 {
	var outOfRange *topic.OutOfRangeError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &outOfRange):
		return kerr.OffsetOutOfRange.Code
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return kerr.RequestTimedOut.Code
	}
	switch mainstem.KindOf(err) {
	case mainstem.KindNotFound:
		return kerr.UnknownTopicOrPartition.Code
	case mainstem.KindExists:
		return kerr.TopicAlreadyExists.Code
	case mainstem.KindInvalid:
		return kerr.InvalidRequest.Code
	case mainstem.KindDenied:
		return kerr.TopicAuthorizationFailed.Code
	case mainstem.KindClosed:
		return kerr.NotLeaderForPartition.Code
	case mainstem.KindCanceled:
		return kerr.RequestTimedOut.Code
	case mainstem.KindUnavailable, mainstem.KindCorrupt:
		return kerr.KafkaStorageError.Code
	}
	return kerr.UnknownServerError.Code
}

// failure returns the code of err, and logs failures of the log and of the server.
func (s *Server) failure(c *conn, request string, err error) int16 {
	code := codeOf(err)
	switch code {
	case kerr.KafkaStorageError.Code, kerr.UnknownServerError.Code:
		s.o.Logger.Error("kafka request failed", "request", request, "client", c.nc.RemoteAddr(), "id", c.client.ID, "error", err)
	}
	return code
}

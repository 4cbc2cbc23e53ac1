package natslog

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
)

// Errors that pass by themselves are Unavailable, those that do not are Invalid.
func TestErrorsOfTheServer(t *testing.T) {
	for _, c := range []struct {
		status, code int
		kind         mainstem.Kind
	}{
		{400, 10005, mainstem.KindUnavailable}, // no suitable peers for placement, peer offline
		{503, 10008, mainstem.KindUnavailable}, // JetStream system temporarily unavailable
		{500, 10009, mainstem.KindUnavailable}, // JetStream cluster can not handle request
		{503, 10023, mainstem.KindUnavailable}, // insufficient resources
		{500, 10049, mainstem.KindUnavailable}, // no store for a stream, while the directory of a deleted one is removed
		{500, 10118, mainstem.KindUnavailable}, // stream is offline
		{429, 10167, mainstem.KindUnavailable}, // too many requests
		{400, 10202, mainstem.KindUnavailable}, // cluster member change is in progress
		{409, 10158, mainstem.KindUnavailable}, // duplicate message id is in process
		{500, 10074, mainstem.KindInvalid},     // replicas > 1 not supported in non-clustered mode
		{500, 10052, mainstem.KindInvalid},     // stream configuration
		{400, 10025, mainstem.KindInvalid},     // bad request
		{400, 10027, mainstem.KindInvalid},     // maximum number of streams reached
	} {
		err := mapError("open", &jetstream.APIError{Code: c.status, ErrorCode: jetstream.ErrorCode(c.code)})
		if err.Kind != c.kind {
			t.Errorf("%d (%d) is %v, want %v", c.status, c.code, err.Kind, c.kind)
		}
		if (c.code == codeNoPeers || c.code == codeNoReplicas) != (err.Hint != "") {
			t.Errorf("%d: hint %q", c.code, err.Hint)
		}
		var e *mainstem.Error
		if errors.As(error(err), &e); e.Err == nil {
			t.Error("the error of the server is not there")
		}
	}
}

package kafka

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SASLHandshake, versions 0 and 1.
//
//	v1  SaslAuthenticate requests follow (KIP-152); after version 0, messages of the
//	    mechanism in frames without a header

// saslHandshake sets the mechanism by which the client authenticates. A connection has at most
// one handshake.
func (s *Server) saslHandshake(_ context.Context, c *conn, req *kmsg.SASLHandshakeRequest) *kmsg.SASLHandshakeResponse {
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	resp.SupportedMechanisms = slices.Clone(c.as.Mechanisms)
	switch {
	case !c.locked() || c.auth.mechanism != "":
		resp.ErrorCode = kerr.IllegalSaslState.Code
		if c.locked() {
			c.failed = fmt.Errorf("a second handshake, for %q", req.Mechanism)
		}
	case !slices.Contains(c.as.Mechanisms, req.Mechanism):
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		c.failed = fmt.Errorf("the mechanism %.40q is not one of %v", req.Mechanism, c.as.Mechanisms)
	default:
		c.auth.mechanism, c.auth.raw = req.Mechanism, req.Version == 0
	}
	return resp
}

package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SASLAuthenticate, versions 0 to 2 (KIP-152).
//
//	v1  the lifetime of the session (KIP-368): 0, no limit

// saslAuthenticate handles one message of the mechanism chosen, see sasl.go.
func (s *Server) saslAuthenticate(ctx context.Context, c *conn, req *kmsg.SASLAuthenticateRequest) *kmsg.SASLAuthenticateResponse {
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	if !c.locked() || c.auth.mechanism == "" || c.auth.raw {
		resp.ErrorCode, resp.ErrorMessage = kerr.IllegalSaslState.Code, kmsg.StringPtr("no SaslHandshake has come before")
		if c.locked() {
			c.failed = errLocked
		}
		return resp
	}
	mechanism := c.auth.mechanism
	answer, err := c.token(ctx, req.SASLAuthBytes)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = c.refused(mechanism, err)
		c.failed = err
		return resp
	}
	resp.SASLAuthBytes = answer
	if resp.SASLAuthBytes == nil {
		resp.SASLAuthBytes = []byte{}
	}
	return resp
}

// refused logs the error of an authentication, and returns the code and the message for the
// client. The message does not contain an error of the log.
func (c *conn) refused(mechanism string, err error) (int16, *string) {
	log := []slog.Attr{slog.Any("client", c.nc.RemoteAddr()), slog.String("mechanism", mechanism), slog.Any("error", err)}
	if errors.Is(err, errNotAuthenticated) {
		c.s.o.Logger.LogAttrs(c.ctx, slog.LevelWarn, "kafka client not authenticated", log...)
		text := err.Error()
		return kerr.SaslAuthenticationFailed.Code, &text
	}
	c.s.o.Logger.LogAttrs(c.ctx, slog.LevelError, "kafka users could not be read", log...)
	return kerr.SaslAuthenticationFailed.Code, kmsg.StringPtr("the users could not be read; try again")
}

// authenticateRaw serves a frame that is a message of the mechanism alone, as after a handshake
// of version 0. The answer is a frame of the same form. Authentication that fails has no
// answer: the connection is closed.
func (c *conn) authenticateRaw(message []byte) error {
	mechanism := c.auth.mechanism
	answer, err := c.token(c.ctx, message)
	if err != nil {
		_, _ = c.refused(mechanism, err)
		return err
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(answer)), uint32(len(answer)))
	return c.write(append(frame, answer...))
}

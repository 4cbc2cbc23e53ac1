package rpc

import (
	"net/http"
	"time"
)

// Timeouts that [ConfigureServer] sets.
const (
	headerTimeout = 10 * time.Second // for the header of a request to arrive
	idleTimeout   = 3 * time.Minute  // for a connection without calls
	pingAfter     = 30 * time.Second // without traffic on a connection with calls
	pingTimeout   = 15 * time.Second // for the answer to a ping, before the connection is closed
)

// ConfigureServer makes s speak HTTP/1.1 and HTTP/2, also in cleartext, which package remotelog
// uses without TLS. It sets timeouts for everything that a client could delay, and keeps fields
// that are already set. There is no timeout for whole responses, since followers may run without
// end.
func ConfigureServer(s *http.Server) {
	if s.Protocols == nil {
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
		s.Protocols.SetHTTP2(true)
		s.Protocols.SetUnencryptedHTTP2(true)
	}
	if s.ReadHeaderTimeout == 0 {
		s.ReadHeaderTimeout = headerTimeout
	}
	if s.IdleTimeout == 0 {
		s.IdleTimeout = idleTimeout
	}
	if s.HTTP2 == nil {
		s.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	}
}

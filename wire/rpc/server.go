package rpc

import (
	"net/http"
	"time"
)

// What [ConfigureServer] sets.
const (
	headerTimeout = 10 * time.Second // for the head of a request to arrive
	idleTimeout   = 3 * time.Minute  // for a connection without calls
	pingAfter     = 30 * time.Second // of silence on a connection with calls
	pingTimeout   = 15 * time.Second // for the answer, before the connection is dead
)

// ConfigureServer makes s speak HTTP/1.1 and HTTP/2, in cleartext too, which is what
// package remotelog uses without TLS, and bounds the time of everything a client
// could hold up. Fields that are set stay. Calls may last as long as they need:
// followers do, so there is no limit on whole responses.
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

package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Limits of every HTTP listener.
const (
	headerTimeout  = 10 * time.Second // for the header of a request to arrive
	idleTimeout    = 2 * time.Minute  // between requests of a connection
	maxHeaderBytes = 64 << 10
)

// Listen listens on a TCP address for a component. Errors have kind Unavailable, the operation
// op, such as "listen for Kafka clients", and the given hint.
func Listen(ctx context.Context, address, op, hint string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: op + " on " + address, Err: err, Hint: hint}
	}
	return l, nil
}

// HTTPServer is the configuration of an HTTP listener.
type HTTPServer struct {
	Name          string // for errors: "omnibus listener"
	Address       string // HOST:PORT, as it is configured
	Authenticated bool   // Handler checks a token or a password
	Handler       http.Handler
	ReadTimeout   time.Duration // for a whole request to arrive; 0: no limit
	End           func() error  // ends requests that do not end by themselves; nil: there are none
}

// HTTPListener serves HTTP until Stop, which may be called only once.
type HTTPListener struct {
	server   *http.Server
	end      func() error
	finished chan struct{} // closed when the listener's goroutine has ended
}

// Serve serves s on l, which it then owns, behind a [Guard], with TLS if the server has a
// certificate. If serving ends before Stop, the server fails.
func (h *Host) Serve(l net.Listener, s HTTPServer) *HTTPListener {
	running := &HTTPListener{server: h.newServer(&s), end: s.End, finished: make(chan struct{})}
	serve := func() error { return running.server.Serve(l) }
	if h.TLS != nil {
		serve = func() error { return running.server.ServeTLS(l, "", "") }
	}
	go func() {
		defer close(running.finished)
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			h.Failed(fmt.Errorf("%s: %w", s.Name, err))
		}
	}()
	return running
}

// newServer returns an HTTP server with its own copy of the TLS configuration, because net/http
// changes it.
func (h *Host) newServer(s *HTTPServer) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC without TLS
	return &http.Server{
		Handler:   Guard{s.Address, s.Authenticated, h.insecure}.Handler(s.Handler),
		TLSConfig: h.TLS.Clone(), Protocols: &protocols,
		ReadTimeout: s.ReadTimeout, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(h.Logger.Handler(), slog.LevelWarn),
	}
}

// Stop calls End, stops listening, lets requests finish until ctx ends, and then cancels them.
func (l *HTTPListener) Stop(ctx context.Context) error {
	var err error
	if l.end != nil {
		ended := make(chan error, 1)
		go func() { ended <- l.end() }()
		select {
		case err = <-ended:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	err = errors.Join(err, l.server.Shutdown(ctx))
	if err != nil {
		err = fmt.Errorf("requests were cut off: %w", errors.Join(err, l.server.Close()))
	}
	<-l.finished
	return err
}

// authorized passes requests on only if they carry the token, or if there is none.
func (h *Host) authorized(next http.Handler) http.Handler {
	if h.Token == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.CarriesToken(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="mainstem"`)
			http.Error(w, "the request carries no valid bearer token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// CarriesToken reports whether the server has a token and the request carries it.
func (h *Host) CarriesToken(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || h.Token == "" {
		return false
	}
	// Hashes have equal lengths, so the time of the comparison does not depend on the token.
	token := h.Token
	if h.tokenNow != nil {
		token = *h.tokenNow.Load()
	}
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

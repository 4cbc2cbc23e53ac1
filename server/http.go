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
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/wire/rpc"
	mainstemv1 "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// Limits of the HTTP listener.
const (
	headerTimeout  = 10 * time.Second // to send the head of a request
	idleTimeout    = 2 * time.Minute  // between requests of a connection
	maxHeaderBytes = 64 << 10
)

// httpPart is the HTTP listener and what it serves.
type httpPart struct {
	server   *http.Server
	log      *rpc.Handler
	finished chan struct{} // closed when the listener's goroutine has ended
}

// startHTTP begins to listen before it returns, so that a server that started
// can be reached.
func (n *Server) startHTTP(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", n.config.Listen)
	if err != nil {
		return &mainstem.Error{
			Kind: mainstem.KindUnavailable, Op: "listen on " + n.config.Listen, Err: err,
			Hint: "choose another address with --listen",
		}
	}
	n.address = l.Addr()
	c := &n.config
	path, handler := rpc.NewHandler(n.log, &rpc.Options{
		Token: n.token, Limits: c.limits(), Version: Version(), Engine: n.engineName(), Logger: n.logger,
		MaxRequest: c.MaxRequest, MaxPending: c.MaxPending, MaxAnswers: c.MaxAnswers, Memory: n.memory, MaxStreams: c.MaxStreams, MaxSnapshots: c.MaxSnapshots,
		SnapshotLease: c.SnapshotLease, BodyTimeout: c.BodyTimeout, StallTimeout: c.StallTimeout,
	})
	n.http = httpPart{server: n.newServer(c.Listen, n.token != "", n.routes(path, handler)), log: handler, finished: make(chan struct{})}
	go func() {
		defer close(n.http.finished)
		if err := n.serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.fail(fmt.Errorf("http listener: %w", err))
		}
	}()
	return nil
}

func (n *Server) serve(l net.Listener) error {
	if n.tls != nil {
		return n.http.server.ServeTLS(l, "", "")
	}
	return n.http.server.Serve(l)
}

// newServer returns a server of h behind a [guard], for the listener at the address
// listen; authenticated says that h asks for a token or a password. It has a TLS
// configuration of its own, because net/http changes what it is given.
func (n *Server) newServer(listen string, authenticated bool, h http.Handler) *http.Server {
	h = guard{listen, authenticated, n.config.Insecure}.handler(h)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC without TLS
	return &http.Server{
		Handler: h, TLSConfig: n.tls.Clone(), Protocols: &protocols, // each server changes its own
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(n.logger.Handler(), slog.LevelWarn),
	}
}

// stopHTTP ends followers, stops listening, lets other requests end until ctx
// does, and cuts the rest.
func (n *Server) stopHTTP(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- n.http.log.Close() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	err = errors.Join(err, n.http.server.Shutdown(ctx))
	if err != nil {
		err = fmt.Errorf("requests were cut off: %w", errors.Join(err, n.http.server.Close()))
	}
	<-n.http.finished
	return err
}

// routes adds who answers what besides components. Health is open to everybody; the rest needs the
// token, which the RPC handler asks for itself, in the protocol of its client.
func (n *Server) routes(path string, log http.Handler) http.Handler {
	mux := n.mux
	mux.HandleFunc("GET /healthz", n.alive)
	mux.HandleFunc("GET /readyz", n.ready)
	mux.Handle("GET /metrics", n.authorized(promhttp.HandlerFor(n.metrics.registry, promhttp.HandlerOpts{})))
	mux.Handle(path, n.counted(path, log))
	return mux
}

// authorized lets requests through that carry the token, if there is one.
func (n *Server) authorized(next http.Handler) http.Handler {
	if n.token == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !n.carriesToken(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="mainstem"`)
			http.Error(w, "the request carries no valid bearer token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// carriesToken reports whether there is a token, and a request has it.
func (n *Server) carriesToken(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || n.token == "" {
		return false
	}
	// Of equal lengths: the comparison takes the same time for all.
	want, got := sha256.Sum256([]byte(n.token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// procedures are the methods of the RPC service.
var procedures = mainstemv1.File_mainstem_v1_log_proto.Services().ByName("LogService").Methods()

// counted measures RPC requests.
func (n *Server) counted(path string, next http.Handler) http.Handler {
	m := n.metrics
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.inFlight.Inc()
		defer m.inFlight.Dec()
		begin := time.Now()
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(s, r)
		procedure := "unknown" // any text may stand in a URL: it must not become a label
		if method := procedures.ByName(protoreflect.Name(strings.TrimPrefix(r.URL.Path, path))); method != nil {
			procedure = string(method.Name())
		}
		m.requests.WithLabelValues(procedure, strconv.Itoa(s.status)).Inc()
		m.requestTime.WithLabelValues(procedure).Observe(time.Since(begin).Seconds())
	})
}

// statusWriter remembers the status. Unwrap keeps flushing and deadlines working.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusWriter) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() }

func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mainstemdev/mainstem/wire/rpc"
	mainstemv1 "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// startHTTP starts the HTTP listener. When it returns, clients can connect.
func (n *Server) startHTTP(ctx context.Context) error {
	c := &n.config
	l, err := Listen(ctx, c.Listen, "listen", "choose another address with --listen")
	if err != nil {
		return err
	}
	n.address = l.Addr()
	path, handler := rpc.NewHandler(n.log, &rpc.Options{
		Token: n.token, Limits: c.limits(), Version: Version(), Engine: n.engineName(), Logger: n.logger,
		MaxRequest: c.MaxRequest, MaxPending: c.MaxPending, MaxAnswers: c.MaxAnswers, Memory: n.memory, MaxStreams: c.MaxStreams, MaxSnapshots: c.MaxSnapshots,
		SnapshotLease: c.SnapshotLease, BodyTimeout: c.BodyTimeout, StallTimeout: c.StallTimeout,
	})
	n.rpc = handler
	n.sessionMetrics = sessionMetrics{handler}
	if err := n.metrics.registry.Register(n.sessionMetrics); err != nil {
		return errors.Join(err, handler.Close(), l.Close())
	}
	n.routes(path, handler)
	if n.config.TokenFile != "" {
		var watch context.Context
		watch, n.stopWatch = context.WithCancel(n.stopping)
		n.watching.Go(func() { n.watchToken(watch) })
	}
	n.http = n.host.Serve(l, HTTPServer{Name: "http listener", Address: c.Listen, Authenticated: n.token != "", Handler: n.mounted(), End: func() error { return n.endRequests(handler) }})
	return nil
}

// mount is a handler that a component has for all paths below a prefix; see [Host.Mount].
type mount struct {
	prefix  string
	handler http.Handler
	end     func() error
}

// mounted returns a handler that selects a mount by path, and the mux for all other paths.
func (n *Server) mounted() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		for _, m := range n.mounts {
			if strings.HasPrefix(path, m.prefix) {
				m.handler.ServeHTTP(w, r)
				return
			}
		}
		n.mux.ServeHTTP(w, r)
	})
}

// endRequests ends the requests that do not end by themselves, of all handlers at once.
func (n *Server) endRequests(log *rpc.Handler) error {
	ends := []func() error{log.Close}
	for _, m := range n.mounts {
		if m.end != nil {
			ends = append(ends, m.end)
		}
	}
	errs := make([]error, len(ends))
	var all sync.WaitGroup
	for i, end := range ends {
		all.Go(func() { errs[i] = end() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// stopHTTP ends followers, stops listening, lets other requests finish until ctx ends, and then
// cancels them.
func (n *Server) stopHTTP(ctx context.Context) error {
	if n.stopWatch != nil {
		n.stopWatch()
		n.watching.Wait()
	}
	err := n.http.Stop(ctx)
	n.metrics.registry.Unregister(n.sessionMetrics)
	return err
}

// routes adds the routes of the server itself. Health needs no token. The others do; the RPC
// handler checks it itself, in the protocol of the client.
func (n *Server) routes(path string, log http.Handler) {
	n.mux.HandleFunc("GET /healthz", n.alive)
	n.mux.HandleFunc("GET /readyz", n.ready)
	n.host.Handle("GET /metrics", promhttp.HandlerFor(n.metrics.registry, metricsOptions(n.metrics.registry)))
	n.mux.Handle(path, n.counted(path, log))
	n.mux.Handle(rpc.SessionPath, log)
}

// metricsOptions are how /metrics is served: if a collector fails, with all other metrics, and
// promhttp_metric_handler_errors_total counts the failure.
func metricsOptions(r *prometheus.Registry) promhttp.HandlerOpts {
	return promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, Registry: r}
}

// procedures are the methods of the RPC service.
var procedures = mainstemv1.File_mainstem_v1_log_proto.Services().ByName("LogService").Methods()

// counted adds metrics to a handler of RPC requests.
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

// statusWriter records the status. Unwrap keeps flushing and deadlines working.
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

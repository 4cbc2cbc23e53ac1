package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// Server is one running server: a log, its background work, and the components and the HTTP
// listener that serve it. Its methods may be called from many goroutines.
type Server struct {
	config     Config
	logger     *slog.Logger
	metrics    *metrics
	memory     *budget.Budget // shared by all clients
	engine     mainstem.Log   // as OpenLog has returned it
	log        mainstem.Log   // engine with metrics
	token      string
	tls        *tls.Config
	components []startedComponent
	stopping   context.Context // done when Stop begins
	begin      context.CancelFunc
	failed     chan error

	mu struct {
		sync.Mutex
		running int // number of started components, from the first
		stopped bool
	}
	mux     *http.ServeMux // of the HTTP listener; Start sets this and the fields below
	mounts  []mount        // of the HTTP listener, tried before mux
	topics  *topic.Catalog // their background work
	host    *Host
	http    *HTTPListener
	address net.Addr

	rpc            *rpc.Handler
	sessionMetrics sessionMetrics
	tokenNow       atomic.Pointer[string] // token that requests must carry; the token file may change
	stopWatch      context.CancelFunc     // of the token file; nil if there is none
	watching       sync.WaitGroup
}

// startedComponent is a [Component] or another part of the server, for Start and Stop. It starts
// after the parts before it and stops before them.
type startedComponent struct {
	name  string
	start func(ctx context.Context) error
	stop  func(ctx context.Context) error
}

// Open validates c and opens the log. It does not serve yet. The caller must call Stop, even
// without Start.
func Open(ctx context.Context, c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	n := &Server{config: c, logger: c.Logger, metrics: newMetrics(), failed: make(chan error, 1)}
	if n.logger == nil {
		n.logger = slog.New(slog.DiscardHandler)
	}
	n.stopping, n.begin = context.WithCancel(context.Background())
	var err error
	if n.token, err = c.token(); err != nil {
		return nil, err
	}
	n.tokenNow.Store(&n.token)
	if n.tls, err = LoadTLS(c.TLSCert, c.TLSKey); err != nil {
		return nil, err
	}
	n.engine, err = OpenLog(ctx, c.Log, &LogOptions{
		Durability: c.Durability, Limits: c.limits(), CacheBytes: c.CacheBytes, MemTable: c.MemTable,
		MinFree: c.MinFree, BatchIDAge: c.BatchIDAge, SweepEvery: c.SweepEvery, Upgrade: true, Logger: n.logger,
	})
	if err != nil {
		return nil, err
	}
	n.log = measure(n.engine, n.metrics)
	n.memory = budget.New("process", c.memoryBudget())
	n.metrics.registry.MustRegister(memoryMetrics{n.memory})
	n.metrics.registry.MustRegister(&contents{log: n.engine})
	n.components = slices.Concat(
		[]startedComponent{{"background", n.startBackground, n.stopBackground}}, n.startedComponents(false),
		[]startedComponent{{"http", n.startHTTP, n.stopHTTP}}, n.startedComponents(true),
	)
	return n, nil
}

// Log returns the log of the server, which owns it: do not close it.
func (n *Server) Log() mainstem.Log { return n.log }

// Addr returns the address of the HTTP listener, or nil before Start.
func (n *Server) Addr() net.Addr { return n.address }

// URL returns the URL by which clients on this machine reach the server, or "" before Start.
func (n *Server) URL() string {
	if n.address == nil {
		return ""
	}
	scheme := "http"
	if n.tls != nil {
		scheme = "https"
	}
	return scheme + "://" + n.address.String()
}

// Failed returns a channel with the error of a component that has ended by itself. The server
// does not serve clients then, and should be stopped.
func (n *Server) Failed() <-chan error { return n.failed }

// Start starts the components in order. If one fails, Start stops those before it and returns
// the error; the log stays open until Stop.
func (n *Server) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.stopped {
		return mainstem.Errorf(mainstem.KindClosed, "start", "the server was stopped")
	}
	n.mux, n.mounts = http.NewServeMux(), nil
	for n.mu.running < len(n.components) {
		c := n.components[n.mu.running]
		if err := c.start(ctx); err != nil {
			return errors.Join(err, n.stopComponentsLocked(ctx))
		}
		n.mu.running++
	}
	n.sayServed()
	return nil
}

// sayServed logs where the server can be reached, and warns if others can reach it.
func (n *Server) sayServed() {
	served := []any{"log", Redacted(n.config.Log), "url", n.URL(), "version", Version()}
	for _, l := range n.listenersLocked() {
		served = append(served, l.Name, l.Addr.String())
	}
	n.logger.Info("serving", served...)
	if Reachable(n.config.Listen) && (n.tls == nil || n.token == "") {
		n.logger.Warn("other machines can reach this server without TLS or without a token", "listen", n.config.Listen)
	}
}

// Stop stops the components in reverse order and closes the log. Followers end at once; other
// requests may finish until ctx ends or Config.StopTimeout has passed. Stop may be called twice.
func (n *Server) Stop(ctx context.Context) error {
	n.begin()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.stopped {
		return nil
	}
	n.mu.stopped = true
	ctx, cancel := context.WithTimeout(ctx, n.config.StopTimeout)
	defer cancel()
	return errors.Join(n.stopComponentsLocked(ctx), n.engine.Close())
}

func (n *Server) stopComponentsLocked(ctx context.Context) error {
	var errs []error
	for n.mu.running > 0 {
		n.mu.running--
		c := n.components[n.mu.running]
		begin := time.Now()
		if err := c.stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", c.name, err))
		}
		n.logger.Debug("stopped", "part", c.name, "took", time.Since(begin))
	}
	return errors.Join(errs...)
}

// fail reports that a component ended by itself.
func (n *Server) fail(err error) {
	select {
	case n.failed <- err:
	default: // one reason is enough
	}
}

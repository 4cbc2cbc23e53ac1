package testnats

import (
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mainstemdev/mainstem/internal/testport"
)

// Patience is how long the package waits for a server or a cluster before it
// fails the test.
const Patience = time.Minute

// Options changes the servers. Nil means the defaults.
type Options struct {
	// SyncAlways makes the server sync its store before it acknowledges a message.
	// By default it syncs every two minutes, as servers do, which is fast.
	SyncAlways bool
	// MaxPayload is the largest message in bytes; 0 means 1 MiB, the default of the server.
	MaxPayload int
	// Configure may change anything else before a server starts for the first time.
	Configure func(o *server.Options)
}

// Server is one NATS server with JetStream.
type Server struct {
	t    testing.TB
	opts *server.Options

	mu  sync.Mutex
	srv *server.Server // nil while it is stopped; under mu
}

// NewServer starts a server on a random loopback port. It stops when the test ends.
func NewServer(t testing.TB, o *Options) *Server {
	t.Helper()
	s := newServer(t, "node", o)
	s.Start()
	return s
}

// newServer prepares a server that listens on a port that is free now, and keeps
// that port over restarts.
func newServer(t testing.TB, name string, o *Options) *Server {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	opts := &server.Options{
		ServerName:         name,
		Host:               "127.0.0.1",
		Port:               freePort(t),
		NoSigs:             true,
		NoLog:              true,
		JetStream:          true,
		StoreDir:           filepath.Join(t.TempDir(), name),
		JetStreamMaxMemory: 1 << 30,
		JetStreamMaxStore:  8 << 30,
		SyncAlways:         o.SyncAlways,
		MaxPayload:         int32(o.MaxPayload), // 0 is replaced by the server
		MaxPending:         256 << 20,
	}
	if o.Configure != nil {
		o.Configure(opts)
	}
	s := &Server{t: t, opts: opts}
	t.Cleanup(s.Stop)
	return s
}

// freePort returns a loopback port that nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	port, err := testport.Free()
	if err != nil {
		t.Fatalf("testnats: %v", err)
	}
	return port
}

// URL returns where clients connect, with the user and password that
// Options.Configure may have set. It is the same after a restart.
func (s *Server) URL() string {
	u := url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", s.opts.Port)}
	if s.opts.Username != "" {
		u.User = url.UserPassword(s.opts.Username, s.opts.Password)
	}
	return u.String()
}

// Name returns the name of the server, which cluster information uses.
func (s *Server) Name() string { return s.opts.ServerName }

// Start starts the server again after [Server.Stop] and waits until clients can
// connect. A node of a cluster may still be catching up; see [Cluster.WaitHealthy].
func (s *Server) Start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv != nil {
		return
	}
	s.startLocked()
	if !s.srv.ReadyForConnections(Patience) {
		s.t.Fatalf("testnats: server %s is not ready for connections after %v", s.Name(), Patience)
	}
}

func (s *Server) startLocked() {
	s.t.Helper()
	opts := s.opts.Clone() // a server changes its options
	srv, err := server.NewServer(opts)
	if err != nil {
		s.t.Fatalf("testnats: server %s: %v", s.Name(), err)
	}
	srv.Start()
	s.srv = srv
}

// Stop shuts the server down and waits until it is. Its clients lose their
// connections. Stopping twice is allowed.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return
	}
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	s.srv = nil
}

// Running returns the running server, or nil while it is stopped.
func (s *Server) Running() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.srv
}

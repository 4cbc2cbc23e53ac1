package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// Component is something that a server runs on its log, such as a protocol. The components of
// [Config.Components] start in their order, after the background work on the log and before the
// HTTP listener (but see [Intake]), and stop in the reverse order. A component belongs to one
// server.
type Component interface {
	// Name returns one word for logs and errors.
	Name() string
	// Start starts the component. It returns when clients can reach the component. If it fails,
	// it leaves nothing running.
	Start(ctx context.Context, h *Host) error
	// Stop stops a component that Start has started. Requests that are being served may finish
	// until ctx ends; then Stop cancels them.
	Stop(ctx context.Context) error
}

// Configured is a component with settings.
type Configured interface {
	Component
	// Settings returns a pointer to a struct whose fields are settings, like those of [Config];
	// for the tags see [Setting].
	Settings() any
	// Check returns an error for invalid settings, which names each of them. c is the
	// configuration of the server.
	Check(c *Config) error
}

// Required is a component that clients cannot work without.
type Required interface {
	Component
	// Ready returns nil if the component works, and otherwise the reason. /readyz calls it. It
	// may be called from many goroutines, before Start and while the component runs.
	Ready(ctx context.Context) error
}

// Intake is a component that writes to the log what clients send, and from which nobody reads.
// It starts after the HTTP listener and stops before it, so that readers see its last writes.
type Intake interface {
	Component
	Intake() // marks the component and does nothing
}

// Listening is a component that clients connect to.
type Listening interface {
	Component
	// Listeners returns the addresses, or none if the component does not listen.
	Listeners() []Listener
}

// Listener is an address that clients connect to.
type Listener struct {
	Name    string // one word for logs and JSON: "kafka"
	Clients string // description of the clients: "Kafka clients"
	Addr    net.Addr
}

// Host is the part of a server that its components may use. Its fields do not change.
type Host struct {
	// Log is the log of the server. Calls are counted in the metrics of the server.
	Log mainstem.Log
	// Exclusive reports that no other process can open the log while the server runs.
	Exclusive bool
	// Topics are the topics of the log. Their retention and compaction run in the background.
	Topics *topic.Catalog
	// Memory is the budget that all clients of the process share.
	Memory *budget.Budget
	// Metrics is where Start registers the metrics of the component. The server unregisters them
	// when the component has stopped.
	Metrics prometheus.Registerer
	// TLS is the configuration of listeners, nil if the server has no certificate.
	TLS *tls.Config
	// Token is the token that HTTP requests must carry, or "" if the server has none. The token
	// file may change while the server runs: [Host.CarriesToken] checks the present token.
	Token string
	// BodyTimeout is how long an HTTP request may take to arrive.
	BodyTimeout time.Duration
	// Limits are the limits of one batch.
	Limits mainstem.Limits
	Logger *slog.Logger
	// Handle adds a handler for a pattern of [http.ServeMux] to the HTTP listener. The listener
	// passes on only requests with the token of the server. Only Start may call it.
	Handle func(pattern string, h http.Handler)
	// Mount passes every request of the HTTP listener whose escaped path begins with prefix to
	// h, unchanged: no path is cleaned and nothing is redirected. h must check the token itself,
	// in the protocol of its clients (see [Host.CarriesToken]). When the listener stops, it
	// calls end to end requests that do not end by themselves; nil means that there are none.
	// Only Start may call it.
	Mount func(prefix string, h http.Handler, end func() error)
	// Failed reports that a component has ended by itself, with its error. The server then
	// fails, too.
	Failed func(error)

	insecure bool // HTTP listeners accept requests to any host name
	tokenNow *atomic.Pointer[string]
}

// SecondsBuckets returns the bounds of the server's histograms of durations, in seconds: 10 µs
// to 10 s.
func SecondsBuckets() []float64 {
	return []float64{1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10}
}

// Reachable reports whether other machines can connect to a listener at the address HOST:PORT.
func Reachable(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && !isLoopback(host)
}

// CheckReach returns an error for the address of a listener that other machines can reach
// without TLS, or without other protection: missing has each missing kind, and how to set it. It
// returns nil if the configuration says that the network is trusted; otherwise describes the
// consequence of that.
func (c *Config) CheckReach(setting, address string, missing []string, otherwise string) error {
	if c.TLSCert == "" {
		missing = append([]string{"TLS (set tls-cert and tls-key)"}, missing...)
	}
	if !Reachable(address) || c.Insecure || len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s is %q, which other machines can reach, without %s; listen on 127.0.0.1, or set insecure %s",
		setting, address, strings.Join(missing, " and "), otherwise)
}

// newHost returns the Host for components.
func (n *Server) newHost() *Host {
	h := &Host{
		Log: n.log, Exclusive: exclusive(n.engine), Topics: n.topics, Memory: n.memory,
		TLS: n.tls, Token: n.token, BodyTimeout: cmp.Or(n.config.BodyTimeout, rpc.DefaultBodyTimeout),
		Limits: n.config.limits().WithDefaults(),
		Logger: n.logger, Failed: n.fail, insecure: n.config.Insecure, tokenNow: &n.tokenNow,
	}
	h.Mount = func(prefix string, next http.Handler, end func() error) {
		n.mounts = append(n.mounts, mount{prefix, next, end})
	}
	h.Handle = func(pattern string, next http.Handler) { n.mux.Handle(pattern, h.authorized(next)) }
	return h
}

// startedComponents returns the configured components: with intake those that are an [Intake],
// otherwise the others.
func (n *Server) startedComponents(intake bool) []startedComponent {
	var all []startedComponent
	for _, c := range n.config.Components {
		if _, is := c.(Intake); is == intake {
			all = append(all, n.startedComponent(c))
		}
	}
	return all
}

// startedComponent wraps one component. Its metrics are registered while it runs.
func (n *Server) startedComponent(c Component) startedComponent {
	r := &registrations{Registerer: n.metrics.registry}
	start := func(ctx context.Context) error {
		h := *n.host
		h.Metrics = r
		err := c.Start(ctx, &h)
		if err != nil {
			r.remove()
		}
		return err
	}
	stop := func(ctx context.Context) error {
		defer r.remove()
		return c.Stop(ctx)
	}
	return startedComponent{c.Name(), start, stop}
}

// Listeners returns the addresses on which the server listens for clients, except that of
// [Server.URL]. Before Start there are none.
func (n *Server) Listeners() []Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listenersLocked()
}

func (n *Server) listenersLocked() []Listener {
	if n.address == nil {
		return nil
	}
	var all []Listener
	for _, c := range n.config.Components {
		if l, ok := c.(Listening); ok {
			all = append(all, l.Listeners()...)
		}
	}
	return all
}

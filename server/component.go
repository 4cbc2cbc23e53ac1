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

// Component is what a server runs on its log: a protocol, for example. Components of
// [Config.Components] start in their order, after what keeps the log in order and before
// the HTTP listener (but see [Intake]), and stop in the reverse order. A component belongs to
// one server.
type Component interface {
	// Name is one word for logs and errors.
	Name() string
	// Start begins the work. It returns when clients can reach the component. If it fails,
	// nothing of it goes on.
	Start(ctx context.Context, h *Host) error
	// Stop ends what a successful Start began. It lets requests that are being served end
	// until ctx does, and cuts the rest.
	Stop(ctx context.Context) error
}

// Configured is a component with settings.
type Configured interface {
	Component
	// Settings returns a pointer to a struct whose fields are settings, as those of
	// [Config]: the tags are those of [Setting].
	Settings() any
	// Check reports mistakes in the settings, each naming the setting. c is the
	// configuration of the server.
	Check(c *Config) error
}

// Required is a component without which clients cannot work.
type Required interface {
	Component
	// Ready returns why the component does not do its work, nil if it does: /readyz asks it. It
	// may be called from many goroutines, before Start and while it runs.
	Ready(ctx context.Context) error
}

// Intake is a component that writes what others send, and that nobody reads from. It starts after
// the HTTP listener and stops before it, so that readers see the last that came in.
type Intake interface {
	Component
	Intake() // says only that it is one
}

// Listening is a component that clients connect to.
type Listening interface {
	Component
	// Listeners returns the addresses, none if it does not listen.
	Listeners() []Listener
}

// Listener is an address that clients connect to.
type Listener struct {
	Name    string // one word for logs and JSON: "kafka"
	Clients string // for people: "Kafka clients"
	Addr    net.Addr
}

// Host is what a server gives its components. It does not change.
type Host struct {
	// Log is the log of the server, which measures its use.
	Log mainstem.Log
	// Exclusive says that no other process can open the log meanwhile.
	Exclusive bool
	// Topics are the topics of the log. Their upkeep runs.
	Topics *topic.Catalog
	// Memory is the budget that all clients of the process share.
	Memory *budget.Budget
	// Metrics is where Start registers what a component counts. The server unregisters that when
	// the component has stopped.
	Metrics prometheus.Registerer
	// TLS is the configuration of listeners, nil if the server has no certificate.
	TLS *tls.Config
	// Token is what requests of HTTP must carry, "" if the server has none. The token file may
	// change while the server runs: [Host.CarriesToken] checks the present one.
	Token string
	// BodyTimeout is how long a request of HTTP may take to arrive.
	BodyTimeout time.Duration
	// Limits are those of one batch.
	Limits mainstem.Limits
	Logger *slog.Logger
	// Handle adds a pattern of [http.ServeMux] to what the HTTP listener answers to those who
	// have the token of the server. It is for Start only.
	Handle func(pattern string, h http.Handler)
	// Mount gives every request of the HTTP listener whose escaped path begins with prefix to h,
	// as it came: no path is cleaned and nothing is redirected. h asks for the token itself, in
	// the protocol of its clients (see [Host.CarriesToken]). end ends the requests that do not
	// end by themselves, when the listener stops; nil: there are none. It is for Start only.
	Mount func(prefix string, h http.Handler, end func() error)
	// Failed reports that a component ended by itself: the server then ends, too.
	Failed func(error)

	insecure bool // HTTP listeners answer to any name
	tokenNow *atomic.Pointer[string]
}

// SecondsBuckets are the bounds of the server's histograms of durations, 10 µs to 10 s.
func SecondsBuckets() []float64 {
	return []float64{1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10}
}

// Reachable reports whether other machines can reach a listener at a HOST:PORT.
func Reachable(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && !isLoopback(host)
}

// CheckReach refuses an address of a listener that other machines can reach without TLS, or
// for which something else is missing: kinds of protection, each with what to set. The
// configuration may say that the network is trusted; otherwise says what that would mean.
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

// newHost returns what components get.
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

// startedComponents returns the configured components: those of [Intake], or the others.
func (n *Server) startedComponents(intake bool) []startedComponent {
	var all []startedComponent
	for _, c := range n.config.Components {
		if _, is := c.(Intake); is == intake {
			all = append(all, n.startedComponent(c))
		}
	}
	return all
}

// startedComponent returns one component. Its metrics are registered while it runs.
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

// Listeners returns the addresses that the server listens on for clients, besides that of
// [Server.URL]: none before Start.
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

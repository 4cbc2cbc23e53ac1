package alertserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/coordinator"
	"github.com/mainstemdev/mainstem/server"
)

// maxHeaderBytes bounds the head of a request to a coordinator.
const maxHeaderBytes = 64 << 10

// CoordinatorOptions are what the configuration of a coordinator of alert clusters does
// not say about its listener. Nil and zero fields mean the defaults.
type CoordinatorOptions struct {
	TLSCert  string // PEM file; with TLSKey
	TLSKey   string
	Insecure bool // serve beyond loopback without TLS, and on loopback requests by any name
	// Logger receives what happens. Default: discards.
	Logger *slog.Logger
}

// Coordinator is a running coordinator of alert clusters: it asks their object servers
// and answers on an HTTP listener, on which GET /metrics is as well (Prometheus, from a
// registry of its own). Its methods may be called from many goroutines.
type Coordinator struct {
	asker    *coordinator.Coordinator
	server   *http.Server
	address  net.Addr
	secure   bool
	failed   chan error
	finished chan struct{} // closed when the listener's goroutine has ended
}

// OpenCoordinator checks c, begins to ask the clusters whether they are well, and to
// listen: clients can connect when it returns. Mistakes in the configuration are
// Invalid, an address that is taken Unavailable. End it with Stop.
func OpenCoordinator(ctx context.Context, c *coordinator.Config, o *CoordinatorOptions) (*Coordinator, error) {
	if o == nil {
		o = &CoordinatorOptions{}
	}
	own, out, err := o.check(c)
	if err != nil {
		return nil, err
	}
	asker, err := coordinator.Open(c, &coordinator.Options{TLS: out, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	p := &Coordinator{asker: asker, secure: own != nil, failed: make(chan error, 1), finished: make(chan struct{})}
	listen := asker.Config().HTTP.Listen
	l, err := server.Listen(ctx, listen, "listen", "choose another address with --listen")
	if err != nil {
		return nil, errors.Join(err, asker.Close())
	}
	p.address = l.Addr()
	p.server = asker.Server()
	p.server.Handler, p.server.TLSConfig, p.server.MaxHeaderBytes = server.Guard{Listen: listen, AnyName: o.Insecure}.Handler(p.routes()), own, maxHeaderBytes
	go p.serve(l)
	if o.Logger != nil && server.Reachable(listen) && !p.secure {
		o.Logger.Warn("passwords reach this coordinator without TLS", "listen", listen)
	}
	return p, nil
}

// CheckCoordinator returns the mistakes that OpenCoordinator would find in c and o, also
// in the files that they name, without asking or serving anybody.
func CheckCoordinator(c *coordinator.Config, o *CoordinatorOptions) error {
	if o == nil {
		o = &CoordinatorOptions{}
	}
	_, out, err := o.check(c)
	if err != nil {
		return err
	}
	var errs []error
	for name, servers := range c.OMNIbus.Clusters {
		for _, address := range servers {
			if _, err := coordinator.NewHTTPBackend(address, &coordinator.HTTPOptions{TLS: out}); err != nil {
				errs = append(errs, fmt.Errorf("the cluster %s: %w", name, err))
			}
		}
	}
	if errs == nil {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "configuration", Err: errors.Join(errs...)}
}

// check returns the TLS configurations of the listener, nil for none, and of the
// connections to object servers, nil for the authorities of the system.
func (o *CoordinatorOptions) check(c *coordinator.Config) (own, out *tls.Config, err error) {
	if err := c.Validate(); err != nil {
		return nil, nil, err
	}
	invalid := func(format string, a ...any) error {
		return mainstem.Errorf(mainstem.KindInvalid, "configuration", format, a...)
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, nil, invalid("tls-cert and tls-key belong together: only one is set")
	}
	listen := c.HTTP.Listen
	if listen == "" {
		listen = coordinator.DefaultListen
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return nil, nil, invalid("http_server.listen is %q: want HOST:PORT, as in %s", listen, coordinator.DefaultListen)
	}
	if server.Reachable(listen) && o.TLSCert == "" && !o.Insecure {
		return nil, nil, invalid("http_server.listen is %q, which other machines can reach, and requests carry passwords: set tls-cert and tls-key, listen on 127.0.0.1, or set insecure to do without TLS", listen)
	}
	if own, err = server.LoadTLS(o.TLSCert, o.TLSKey); err != nil {
		return nil, nil, err
	}
	if out, err = server.ClientTLS(c.OMNIbus.CAFile); err != nil {
		return nil, nil, fmt.Errorf("omnibus.ca_file: %w", err)
	}
	return own, out, nil
}

// routes adds /metrics to what the coordinator answers. It asks object servers with the
// names and passwords of its clients, but those may ask for none: so a [server.Guard] for
// requests that nobody has authenticated belongs before it.
func (p *Coordinator) routes() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.asker.Collectors()...)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics, api := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, Registry: registry}), p.asker.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			metrics.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

func (p *Coordinator) serve(l net.Listener) {
	defer close(p.finished)
	serve := func() error { return p.server.Serve(l) }
	if p.secure {
		serve = func() error { return p.server.ServeTLS(l, "", "") }
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		p.failed <- fmt.Errorf("coordinator listener: %w", err)
	}
}

// URL returns how clients on this machine reach the coordinator.
func (p *Coordinator) URL() string {
	scheme := "http"
	if p.secure {
		scheme = "https"
	}
	return scheme + "://" + p.address.String()
}

// Failed yields the error of a listener that ended by itself: stop the coordinator then.
func (p *Coordinator) Failed() <-chan error { return p.failed }

// Stop refuses new requests, lets those that are running end for as long as the
// configuration's shutdown_timeout says or ctx allows, and cuts the rest. Stopping twice
// is allowed.
func (p *Coordinator) Stop(ctx context.Context) error {
	err := p.asker.Close() // bounded by its own timeout
	ctx, cancel := context.WithTimeout(ctx, p.asker.Config().HTTP.Timeout)
	defer cancel()
	if serr := p.server.Shutdown(ctx); serr != nil {
		err = fmt.Errorf("requests were cut off: %w", errors.Join(err, serr, p.server.Close()))
	}
	<-p.finished
	return err
}

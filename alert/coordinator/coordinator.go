package coordinator

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Options is what a configuration in a file cannot have. Nil and zero fields mean the
// defaults.
type Options struct {
	// Backends are object servers by the names that clusters call them by, for instance
	// servers in this process. What a cluster names and is not here is an HTTP interface.
	Backends map[string]Backend
	// TLS is for https:// servers. Default: the authorities of the system.
	TLS *tls.Config
	// Logger receives requests (at level Debug), fail-overs and failures. Default: discards.
	Logger *slog.Logger
}

// Coordinator asks the object servers of many clusters at once. Make it with [Open].
// Its methods may be called from many goroutines.
type Coordinator struct {
	config   Config
	clusters []*cluster // in the order of their names
	byName   map[string]*cluster
	secret   []byte // of the keys of credentials
	logger   *slog.Logger
	metrics  *metrics
	slots    chan struct{}
	names    []byte // the answer to /clusterNames

	watchers sync.WaitGroup
	stop     context.CancelFunc // ends the watchers
	mu       struct {
		sync.Mutex
		closed  bool
		running map[*run]struct{}
		idle    chan struct{} // closed when closed and nothing runs
	}
}

// Open returns a coordinator, which checks its clusters from now on. Mistakes in the
// configuration are Invalid. Nothing is connected yet. Close it.
func Open(config *Config, o *Options) (*Coordinator, error) {
	if config == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "coordinator", "there is no configuration")
	}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Coordinator{config: config.withDefaults(), byName: map[string]*cluster{}, secret: make([]byte, 32), logger: opts.Logger, metrics: newMetrics()}
	if _, err := rand.Read(c.secret); err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInternal, Op: "coordinator", Err: err}
	}
	c.slots = make(chan struct{}, c.config.HTTP.MaxRequests)
	c.mu.running = map[*run]struct{}{}
	for _, name := range c.config.names() {
		servers, err := c.servers(name, &opts)
		if err != nil {
			return nil, err
		}
		cl := newCluster(name, servers, &c.config.OMNIbus, opts.Logger, c.metrics.of(name))
		c.clusters = append(c.clusters, cl)
		c.byName[name] = cl
	}
	c.names = c.appendNames(nil)
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	for _, cl := range c.clusters {
		c.watchers.Go(func() { cl.watch(ctx) })
	}
	return c, nil
}

func (c *Coordinator) servers(name string, o *Options) ([]*server, error) {
	om := &c.config.OMNIbus
	var servers []*server
	for _, address := range om.Clusters[name] {
		b, ok := o.Backends[address]
		if !ok {
			var err error
			b, err = NewHTTPBackend(address, &HTTPOptions{TLS: o.TLS, Label: om.ConnectionLabel, MaxResult: om.MaxResult + om.MaxResult/2, MaxRow: om.MaxRow, Timeout: om.DialTimeout})
			if err != nil {
				return nil, mainstem.Refusef(mainstem.KindInvalid, "coordinator", "the cluster %s: %w", name, err)
			}
		}
		servers = append(servers, &server{address: address, backend: b})
	}
	return servers, nil
}

// Config returns the configuration with all defaults filled in.
func (c *Coordinator) Config() Config { return c.config }

// Server returns an HTTP server for the coordinator with the timeouts of its
// configuration, which the caller runs and shuts down.
func (c *Coordinator) Server() *http.Server {
	h := c.config.HTTP
	return &http.Server{Addr: h.Listen, Handler: c.Handler(), ReadHeaderTimeout: h.Timeout, IdleTimeout: h.IdleTimeout, ErrorLog: slog.NewLogLogger(c.logger.Handler(), slog.LevelWarn)}
}

// Close refuses new requests, waits for those that are running up to the configured
// shutdown timeout, ends those that run longer, and closes all connections. The
// backends stay open. Closing twice is allowed.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	if !c.mu.closed {
		c.mu.closed = true
		c.mu.idle = make(chan struct{})
		if len(c.mu.running) == 0 {
			close(c.mu.idle)
		}
	}
	idle := c.mu.idle
	c.mu.Unlock()
	patience := time.NewTimer(c.config.HTTP.ShutdownTimeout)
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
		c.abort()
		<-idle
	}
	c.stop()
	c.watchers.Wait()
	for _, cl := range c.clusters {
		cl.pool.close()
	}
	return nil
}

// abort ends all requests that are running.
func (c *Coordinator) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.mu.running {
		r.cancel(mainstem.Refusef(mainstem.KindClosed, "coordinator", "the coordinator is stopping"))
	}
}

// Ready returns nil if the coordinator serves and some server of every cluster is not
// known to be ill; otherwise Unavailable with the names of the clusters, or Closed.
func (c *Coordinator) Ready() error {
	c.mu.Lock()
	closed := c.mu.closed
	c.mu.Unlock()
	if closed {
		return mainstem.Refusef(mainstem.KindClosed, "coordinator", "the coordinator is closed")
	}
	var ill []string
	for _, cl := range c.clusters {
		if !cl.ready() {
			ill = append(ill, cl.name)
		}
	}
	if len(ill) > 0 {
		return mainstem.Refusef(mainstem.KindUnavailable, "coordinator", "no server can be reached of %v", ill)
	}
	return nil
}

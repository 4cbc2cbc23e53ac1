// Package kafkaserver is the Kafka listener of a server, as a component of package server: it
// serves topics, and event stores and alert tables as topics to read, to Kafka clients.
//
//	k := kafkaserver.New()
//	k.Config.Listen = kafkaserver.DefaultListen
//	c := server.DefaultConfig()
//	c.Components = append(c.Components, k)
//	s, err := server.Open(ctx, c)
//
// A log has at most one server for Kafka clients. On a log that several processes can open, the
// component takes a lease first and serves only while it has the lease. See lease.go.
package kafkaserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/kafkatopic"
	"github.com/mainstemdev/mainstem/lease"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka"
	"github.com/mainstemdev/mainstem/wire/kafka/eventtopic"
)

// Component is the Kafka listener of a server. It belongs to one server, which calls Start and
// Stop one after the other. The other methods may be called from many goroutines.
type Component struct {
	// Config must not change after the server was opened.
	Config Config

	// Start sets these.
	host     *server.Host
	metrics  *metrics
	lease    *lease.Keeper      // nil for a log that needs none
	unwatch  context.CancelFunc // ends the goroutine of watchLease; nil without a lease
	watching sync.WaitGroup     // the goroutine of watchLease
	mu       struct {
		sync.Mutex
		address net.Addr // of the listener, also while the lease is lost; nil before Start and after Stop
	}

	// These belong to Start, then to the goroutine of watchLease, and after its end to Stop.
	server   *kafka.Server // nil while Kafka is not served
	sources  []source      // of server
	finished chan struct{} // closed when the goroutine that accepts connections has ended
}

// source shows data of the log as topics, and owns goroutines.
type source interface {
	partition.Source
	Close() error
}

var (
	_ server.Configured = (*Component)(nil)
	_ server.Listening  = (*Component)(nil)
)

// New returns a component with the default Config, which has no address to listen on. Set
// Config.Listen to turn Kafka on.
func New() *Component { return &Component{Config: Config{AutoCreate: true}} }

// Name implements [server.Component].
func (k *Component) Name() string { return "kafka" }

// Settings implements [server.Configured].
func (k *Component) Settings() any { return &k.Config }

// Addr returns the address of the listener; nil before Start, after Stop, and if Kafka is off.
// While the lease is lost it is the address at which the component will listen again.
func (k *Component) Addr() net.Addr {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.address
}

func (k *Component) setAddr(a net.Addr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.address = a
}

// Listeners implements [server.Listening].
func (k *Component) Listeners() []server.Listener {
	if a := k.Addr(); a != nil {
		return []server.Listener{{Name: "kafka", Clients: "Kafka clients", Addr: a}}
	}
	return nil
}

// Start implements [server.Component]. It takes the lease, if the log needs one, and listens
// when it returns. The error is Exists if another server has the lease. If it fails, nothing
// stays open.
func (k *Component) Start(ctx context.Context, h *server.Host) error {
	if k.Config.Listen == "" {
		return nil
	}
	k.host = h
	var err error
	if k.lease, err = k.takeLease(ctx); err != nil {
		return err
	}
	k.metrics = newMetrics(h.Logger)
	var session *lease.Session
	if k.lease != nil {
		session, err = k.lease.Session(ctx)
	}
	var l net.Listener
	if err == nil {
		l, err = listen(ctx, k.Config.Listen)
	}
	if err == nil {
		err = k.serve(ctx, l)
	}
	if err != nil {
		return errors.Join(err, k.release(ctx))
	}
	k.setAddr(l.Addr())
	h.Metrics.MustRegister(k.metrics)
	if session != nil {
		var watching context.Context
		watching, k.unwatch = context.WithCancel(context.WithoutCancel(ctx))
		k.watching.Go(func() { k.watchLease(watching, session) })
	}
	if server.Reachable(k.Config.Listen) && (h.TLS == nil || k.Config.SASL == "") {
		h.Logger.Warn("other machines can reach this server's Kafka listener without TLS or without authentication", "kafka", k.Config.Listen)
	}
	return nil
}

// serve starts a Kafka server on l, which it owns: an error closes l, otherwise close does.
func (k *Component) serve(ctx context.Context, l net.Listener) error {
	c, h := &k.Config, k.host
	sources := []source{
		eventtopic.Open(h.Log, &eventtopic.Options{Logger: h.Logger}),
		kafkatopic.Open(h.Log, &kafkatopic.Options{Logger: h.Logger}),
	}
	o := c.options()
	for _, s := range sources {
		o.Sources = append(o.Sources, s)
	}
	o.Memory, o.Logger, o.Metrics = h.Memory, h.Logger, k.metrics
	s, err := kafka.Open(ctx, h.Topics, o)
	if err != nil {
		return errors.Join(fmt.Errorf("start the Kafka server: %w", err), l.Close(), closeAll(sources))
	}
	finished := make(chan struct{})
	k.server, k.sources, k.finished = s, sources, finished
	k.metrics.server.Store(s)
	as := &kafka.Listener{Advertise: c.Advertise, Mechanisms: c.mechanisms()}
	if h.TLS != nil {
		as.TLS = h.TLS.Clone()
	}
	go func() {
		defer close(finished)
		k.accept(s, l, as)
	}()
	return nil
}

// accept serves l until close, which may come first: then Serve has nothing to do and returns Closed.
func (k *Component) accept(s *kafka.Server, l net.Listener, as *kafka.Listener) {
	if err := s.Serve(l, as); err != nil && !errors.Is(err, mainstem.ErrClosed) {
		k.host.Failed(fmt.Errorf("kafka listener: %w", err))
	}
}

// closeAll closes the sources of a Kafka server that was shut down.
func closeAll(sources []source) error {
	var errs []error
	for _, s := range sources {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// listen listens on a TCP address. Its errors have a hint for the operator.
func listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := server.Listen(ctx, address, "listen for Kafka clients", "choose another address with --kafka, or turn it off with --kafka ''")
	if e := (*mainstem.Error)(nil); errors.Is(err, syscall.EADDRINUSE) && errors.As(err, &e) {
		e.Hint = "another server, perhaps a Kafka broker, has that address: " + e.Hint
	}
	return l, err
}

// close stops listening and shuts the Kafka server down, see [kafka.Server.Shutdown]: requests
// have until the end of ctx. It does nothing if Kafka is not served.
func (k *Component) close(ctx context.Context) error {
	if k.server == nil {
		return nil
	}
	k.metrics.server.Store(nil)
	err := k.server.Shutdown(ctx)
	<-k.finished
	k.server = nil
	return errors.Join(err, closeAll(k.sources))
}

// Stop implements [server.Component]. It stops serving Kafka and releases the lease.
func (k *Component) Stop(ctx context.Context) error {
	if k.Addr() == nil {
		return nil
	}
	if k.lease != nil {
		k.unwatch()
		k.watching.Wait()
	}
	err := errors.Join(k.close(ctx), k.release(ctx))
	k.setAddr(nil)
	return err
}

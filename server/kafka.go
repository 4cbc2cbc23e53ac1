package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/kafkatopic"
	"github.com/mainstemdev/mainstem/lease"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
	"github.com/mainstemdev/mainstem/wire/kafka/eventtopic"
)

// kafkaPart is the Kafka listener and its server.
type kafkaPart struct {
	address  net.Addr // nil if Kafka is off; the same whenever it listens again
	figures  *kafkaFigures
	lease    *lease.Keeper      // nil for a log that needs none, see kafka_lease.go
	unwatch  context.CancelFunc // ends the goroutine that watches the lease
	watching sync.WaitGroup     // that goroutine

	// Start sets these, then the goroutine that watches the lease, and after it stopKafka.
	server   *kafka.Server // nil while Kafka is not served
	events   *eventtopic.Catalog
	alerts   *kafkatopic.Catalog
	finished chan struct{} // closed when the listener's goroutine has ended
}

// startKafka takes the lease, if the log needs one, and begins to listen before it
// returns, so that a server that started can be reached.
func (n *Server) startKafka(ctx context.Context) error {
	k := &n.kafka
	if n.config.Kafka == "" {
		return nil
	}
	var err error
	if k.lease, err = n.leaseKafka(ctx); err != nil {
		return err
	}
	k.figures = newKafkaFigures()
	var session *lease.Session
	if k.lease != nil {
		session, err = k.lease.Session(ctx)
	}
	var l net.Listener
	if err == nil {
		l, err = listenKafka(ctx, n.config.Kafka)
	}
	if err == nil {
		err = n.serveKafka(ctx, l)
	}
	if err != nil {
		return errors.Join(err, k.releaseKafka(ctx))
	}
	k.address = l.Addr()
	n.metrics.registry.MustRegister(k.figures)
	if session != nil {
		var watching context.Context
		watching, k.unwatch = context.WithCancel(context.WithoutCancel(ctx))
		k.watching.Go(func() { n.watchLease(watching, session) })
	}
	return nil
}

// serveKafka serves Kafka clients on l, which it closes in the end.
func (n *Server) serveKafka(ctx context.Context, l net.Listener) error {
	c, k := &n.config, &n.kafka
	events := eventtopic.Open(n.log, &eventtopic.Options{Logger: n.logger})
	alerts := kafkatopic.Open(n.log, &kafkatopic.Options{Logger: n.logger})
	s, err := kafka.New(ctx, n.topics, &kafka.Options{
		Sources:      []topic.Source{events, alerts},
		NoAutoCreate: !c.KafkaAutoCreate, Partitions: int32(c.KafkaPartitions), MaxRequest: c.KafkaMaxRequest,
		AutoCreateRate: c.KafkaAutoCreateRate, AutoCreateTopics: c.KafkaAutoCreateTotal,
		MaxInFlight: c.KafkaMaxPending, Memory: n.memory, MaxConnections: c.KafkaMaxConnections, MaxFetch: c.KafkaMaxFetch,
		WriteTimeout: c.KafkaWriteTimeout, IdleTimeout: c.KafkaIdleTimeout, OffsetRetention: c.KafkaOffsetRetention,
		GroupSession: c.KafkaGroupSession, GroupHeartbeat: c.KafkaGroupHeartbeat,
		Logger: n.logger, Metrics: k.figures,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("start the Kafka server: %w", err), l.Close(), events.Close(), alerts.Close())
	}
	finished := make(chan struct{})
	k.server, k.events, k.alerts, k.finished = s, events, alerts, finished
	k.figures.server.Store(s)
	as := &kafka.Listener{Advertise: c.KafkaAdvertise, Mechanisms: c.kafkaMechanisms()}
	if n.tls != nil {
		as.TLS = n.tls.Clone()
	}
	go func() {
		defer close(finished)
		if err := s.Serve(l, as); err != nil {
			n.fail(fmt.Errorf("kafka listener: %w", err))
		}
	}()
	return nil
}

func listenKafka(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err == nil {
		return l, nil
	}
	e := &mainstem.Error{
		Kind: mainstem.KindUnavailable, Op: "listen for Kafka clients on " + address, Err: err,
		Hint: "choose another address with --kafka, or turn it off with --kafka ''",
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		e.Hint = "another server, perhaps a Kafka broker, has that address: " + e.Hint
	}
	return nil, e
}

// close stops listening, lets requests that are being served end until ctx does, and
// cuts the rest.
func (k *kafkaPart) close(ctx context.Context) error {
	if k.server == nil {
		return nil
	}
	k.figures.server.Store(nil)
	err := k.server.Shutdown(ctx)
	<-k.finished
	k.server = nil
	return errors.Join(err, k.events.Close(), k.alerts.Close())
}

// stopKafka stops serving Kafka and gives the lease back.
func (n *Server) stopKafka(ctx context.Context) error {
	k := &n.kafka
	if k.address == nil {
		return nil
	}
	if k.lease != nil {
		k.unwatch()
		k.watching.Wait()
	}
	n.metrics.registry.Unregister(k.figures)
	return errors.Join(k.close(ctx), k.releaseKafka(ctx))
}

// KafkaAddr returns the address that the server listens on for Kafka clients, nil before
// Start and if that is off.
func (n *Server) KafkaAddr() net.Addr { return n.kafka.address }

// kafkaMechanisms are the SASL mechanisms as the protocol calls them.
func (c *Config) kafkaMechanisms() []string {
	var out []string
	for name := range strings.SplitSeq(c.KafkaSASL, ",") {
		if name = strings.ToUpper(strings.TrimSpace(name)); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// checkKafka refuses what cannot be served, and an address that others can reach
// unless it is protected.
func (c *Config) checkKafka() error {
	if c.Kafka == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(c.Kafka)
	if err != nil {
		return fmt.Errorf("kafka is %q: want HOST:PORT, as in %s, or nothing to turn it off", c.Kafka, DefaultKafka)
	}
	for _, m := range c.kafkaMechanisms() {
		switch m {
		case kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512:
		default:
			return fmt.Errorf("kafka-sasl has %q: want plain, scram-sha-256 or scram-sha-512, separated by commas", strings.ToLower(m))
		}
	}
	if c.KafkaPartitions < 0 || c.KafkaPartitions > topic.MaxPartitions {
		return fmt.Errorf("kafka-partitions is %d: want 1 to %d", c.KafkaPartitions, topic.MaxPartitions)
	}
	if request := cmp.Or(c.KafkaMaxRequest, kafka.DefaultMaxRequest); c.KafkaMaxPending != 0 && c.KafkaMaxPending < request {
		return fmt.Errorf("kafka-max-pending is %d, less than kafka-max-request, %d: a request must fit into it", c.KafkaMaxPending, request)
	}
	if c.KafkaLease != 0 && (c.KafkaLease < lease.MinTTL || c.KafkaLease > lease.MaxTTL) {
		return fmt.Errorf("kafka-lease is %v: want %v to %v", c.KafkaLease, lease.MinTTL, lease.MaxTTL)
	}
	if c.KafkaAdvertise != "" {
		if host, port, err := net.SplitHostPort(c.KafkaAdvertise); err != nil || host == "" || port == "" {
			return fmt.Errorf("kafka-advertise is %q: want HOST:PORT, by which clients reach this server", c.KafkaAdvertise)
		}
	}
	if isLoopback(host) || c.Insecure {
		return nil
	}
	var missing []string
	if c.TLSCert == "" {
		missing = append(missing, "TLS (set tls-cert and tls-key)")
	}
	if len(c.kafkaMechanisms()) == 0 {
		missing = append(missing, "authentication (set kafka-sasl, and make users with mainstem kafka user set)")
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("kafka is %q, which other machines can reach, without %s; listen on 127.0.0.1, or set insecure to serve everyone on that network",
		c.Kafka, strings.Join(missing, " and "))
}

// KafkaUsers returns the users of a log that Kafka clients authenticate as.
func KafkaUsers(log mainstem.Log) *kafka.UserStore { return kafka.NewUserStore(log) }

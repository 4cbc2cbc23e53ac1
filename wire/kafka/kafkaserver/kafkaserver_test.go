package kafkaserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/wire/kafka"
	"github.com/mainstemdev/mainstem/wire/kafka/kafkaserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stopTimeout is longer than any test should need to stop a server.
const stopTimeout = time.Minute

// change sets the configuration of a server and its Kafka listener for a test.
type change func(c *server.Config, k *kafkaserver.Config)

// running is a server with a Kafka listener.
type running struct {
	*server.Server
	kafka *kafkaserver.Component
}

// open opens a server in memory with a Kafka listener, configured by change.
func open(t *testing.T, do change) running {
	t.Helper()
	k := kafkaserver.New()
	c := servertest.Config(k)
	k.Config.Listen = "127.0.0.1:0"
	if do != nil {
		do(&c, &k.Config)
	}
	return running{servertest.Open(t, c), k}
}

// start opens a server and starts it. It runs until the test ends.
func start(t *testing.T, do change) running {
	t.Helper()
	n := open(t, do)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func kafkaClient(t *testing.T, n running, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.kafka.Addr().String()), kgo.RequestRetries(1)}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func TestKafka(t *testing.T) {
	n := start(t, func(_ *server.Config, k *kafkaserver.Config) { k.Advertise, k.Partitions = "localhost:0", 2 })
	cl := kafkaClient(t, n, kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("billing"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DefaultProduceTopic("orders"), kgo.AllowAutoTopicCreation(), kgo.DisableAutoCommit(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, text := range []string{"one", "two", "three"} {
		if err := cl.ProduceSync(ctx, &kgo.Record{Value: []byte(text), Partition: 1}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var got []*kgo.Record
	for len(got) < 3 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		got = append(got, fs.Records()...)
	}
	if err := cl.CommitRecords(ctx, got[0]); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(n.kafka.Addr().String())
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	if b := meta.Brokers[0]; len(meta.Brokers) != 1 || b.Host != "localhost" || strconv.Itoa(int(b.Port)) != port {
		t.Errorf("clients are told to connect to %+v, want localhost:%s", meta.Brokers, port)
	}
	servertest.AwaitMetrics(t, n.URL(),
		"mainstem_kafka_connections ", "mainstem_kafka_connections_total ", "mainstem_kafka_connections_refused_total 0", "mainstem_kafka_topics_not_created_total 0",
		`mainstem_kafka_request_seconds_count{api="Produce"} 3`, `mainstem_kafka_request_seconds_count{api="OffsetCommit"} 1`,
		"mainstem_kafka_produced_records_total 3", "mainstem_kafka_received_bytes_total ", "mainstem_kafka_sent_bytes_total ",
		`mainstem_kafka_group_lag{group="billing",partition="1",topic="orders"} 2`,
	)
	cl.Close()
}

func TestKafkaIsOffUnlessAskedFor(t *testing.T) {
	n := start(t, func(_ *server.Config, k *kafkaserver.Config) { k.Listen = "" })
	if a := n.kafka.Addr(); a != nil {
		t.Errorf("it listens on %v", a)
	}
	if text := servertest.Metrics(t, n.URL()); strings.Contains(text, "mainstem_kafka") {
		t.Error("/metrics speaks of Kafka")
	}
}

func TestKafkaAddressTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := open(t, func(_ *server.Config, k *kafkaserver.Config) { k.Listen = l.Addr().String() })
	err = n.Start(t.Context())
	if !errors.Is(err, mainstem.ErrUnavailable) || !strings.Contains(err.Error(), "--kafka") || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v, want an Unavailable error that names the address and --kafka", err)
	}
}

// TestKafkaStops: a client that waits for records does not delay the end, and acknowledged
// records are there afterwards.
func TestKafkaStops(t *testing.T) {
	dir := t.TempDir()
	again := func() running {
		return start(t, func(c *server.Config, _ *kafkaserver.Config) { c.Log, c.StopTimeout = dir, stopTimeout })
	}
	n := again()
	cl := kafkaClient(t, n, kgo.ConsumeTopics("t"), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation(), kgo.FetchMaxWait(time.Minute))
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("kept")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took >= stopTimeout {
		t.Errorf("stopping took %v: it waited for a client", took)
	}
	cl.Close()
	n = again()
	cl = kafkaClient(t, n, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	fs := cl.PollFetches(t.Context())
	if rs := fs.Records(); len(rs) != 1 || string(rs[0].Value) != "kept" {
		t.Errorf("%d records, %v", len(rs), fs.Err())
	}
	cl.Close()
}

func TestKafkaIsSecured(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := servertest.WriteCertificate(cert, key); err != nil {
		t.Fatal(err)
	}
	n := start(t, func(c *server.Config, k *kafkaserver.Config) {
		k.SASL, c.TLSCert, c.TLSKey = "scram-sha-512", cert, key
	})
	if err := kafka.NewUserStore(n.Log()).Set(t.Context(), "ada", "secret"); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	secure := kgo.DialTLSConfig(&tls.Config{RootCAs: roots})
	as := func(password string) kgo.Opt {
		return kgo.SASL(scram.Auth{User: "ada", Pass: password}.AsSha512Mechanism())
	}
	for _, c := range []struct {
		name string
		opts []kgo.Opt
		ok   bool
	}{
		{"all that is asked for", []kgo.Opt{secure, as("secret")}, true},
		{"a wrong password", []kgo.Opt{secure, as("guess")}, false},
		{"no password", []kgo.Opt{secure}, false},
		{"no TLS", []kgo.Opt{as("secret")}, false},
	} {
		cl := kafkaClient(t, n, c.opts...)
		if err := cl.Ping(t.Context()); (err == nil) != c.ok {
			t.Errorf("with %s: %v", c.name, err)
		}
		cl.Close()
	}
}

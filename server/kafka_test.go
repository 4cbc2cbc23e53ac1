package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
)

func kafkaClient(t *testing.T, n *server.Server, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.KafkaAddr().String()), kgo.RequestRetries(1)}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func scrape(t *testing.T, n *server.Server) string {
	t.Helper()
	status, metrics := get(t, nil, n.URL()+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, metrics)
	}
	return metrics
}

// awaitMetrics waits until each of the lines, or a line that begins so, is among the
// metrics: what counts a request does it after the answer, so its client may be quicker.
func awaitMetrics(t *testing.T, n *server.Server, lines ...string) {
	t.Helper()
	for _, line := range lines {
		testkit.Eventually(t, "/metrics has "+line, func() bool { return strings.Contains(scrape(t, n), "\n"+line) })
	}
}

func TestKafka(t *testing.T) {
	n := start(t, func(c *server.Config) { c.Kafka, c.KafkaAdvertise, c.KafkaPartitions = "127.0.0.1:0", "localhost:0", 2 })
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
	_, port, _ := net.SplitHostPort(n.KafkaAddr().String())
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	if b := meta.Brokers[0]; len(meta.Brokers) != 1 || b.Host != "localhost" || strconv.Itoa(int(b.Port)) != port {
		t.Errorf("clients are told to connect to %+v, want localhost:%s", meta.Brokers, port)
	}
	awaitMetrics(t, n,
		"mainstem_kafka_connections ", "mainstem_kafka_connections_total ", "mainstem_kafka_connections_refused_total 0", "mainstem_kafka_topics_not_created_total 0",
		`mainstem_kafka_request_seconds_count{api="Produce"} 3`, `mainstem_kafka_request_seconds_count{api="OffsetCommit"} 1`,
		"mainstem_kafka_produced_records_total 3", "mainstem_kafka_received_bytes_total ", "mainstem_kafka_sent_bytes_total ",
		`mainstem_kafka_group_lag{group="billing",partition="1",topic="orders"} 2`,
	)
	cl.Close()
}

func TestKafkaIsOffUnlessAskedFor(t *testing.T) {
	n := start(t, nil)
	if a := n.KafkaAddr(); a != nil {
		t.Errorf("it listens on %v", a)
	}
	if text := scrape(t, n); strings.Contains(text, "mainstem_kafka") {
		t.Error("/metrics speaks of Kafka")
	}
}

func TestKafkaAddressTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := server.DefaultConfig()
	c.Log, c.Listen, c.Kafka = server.Memory, "127.0.0.1:0", l.Addr().String()
	n, err := server.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop(context.Background())
	err = n.Start(t.Context())
	if !errors.Is(err, mainstem.ErrUnavailable) || !strings.Contains(err.Error(), "--kafka") || !strings.Contains(err.Error(), c.Kafka) {
		t.Errorf("got %v, want an Unavailable error that names the address and --kafka", err)
	}
}

// TestKafkaStops: a client that waits for records does not hold up the end, and what
// was acknowledged is there afterwards.
func TestKafkaStops(t *testing.T) {
	dir := t.TempDir()
	open := func() *server.Server {
		return start(t, func(c *server.Config) { c.Log, c.Kafka, c.StopTimeout = dir, "127.0.0.1:0", stopTimeout })
	}
	n := open()
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
	n = open()
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
	n := start(t, func(c *server.Config) {
		c.Kafka, c.KafkaSASL, c.TLSCert, c.TLSKey = "127.0.0.1:0", "scram-sha-512", cert, key
	})
	if err := server.KafkaUsers(n.Log()).Set(t.Context(), "ada", "secret"); err != nil {
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

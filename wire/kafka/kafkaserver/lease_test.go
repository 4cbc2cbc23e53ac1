package kafkaserver_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/internal/testport"
	"github.com/mainstemdev/mainstem/kv"
	"github.com/mainstemdev/mainstem/lease"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/wire/kafka/kafkaserver"
)

// duties is the table with the lease to serve Kafka; its values are those of package lease.
func duties(t *testing.T, log mainstem.Log) *kv.Bucket[map[string]any] {
	t.Helper()
	b, err := kv.Open[map[string]any](log, "mainstem/duties", nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// onNATS configures a server that serves Kafka on a log that other nodes can open.
func onNATS(url, advertise string, ttl time.Duration) change {
	return func(c *server.Config, k *kafkaserver.Config) {
		c.Log, k.Advertise, k.Lease = url, advertise, ttl
	}
}

// at makes the server listen for Kafka at an address that nobody else gets while it does not listen.
func at(address string, more change) change {
	return func(c *server.Config, k *kafkaserver.Config) {
		more(c, k)
		k.Listen = address
	}
}

func TestSecondServerOfALogServesNoKafka(t *testing.T) {
	t.Parallel() // it mostly waits
	url := testnats.NewServer(t, nil).URL()
	start(t, onNATS(url, "first.example:9092", 20*time.Second))
	start(t, func(c *server.Config, k *kafkaserver.Config) { c.Log, k.Listen = url, "" }) // without Kafka there may be many
	err := open(t, onNATS(url, "second.example:9092", 20*time.Second)).Start(t.Context())
	host, _ := os.Hostname()
	holder := "first.example:9092 (host " + host + ", process " + strconv.Itoa(os.Getpid()) + ")"
	if !errors.Is(err, mainstem.ErrExists) || !strings.Contains(err.Error(), holder) || !strings.Contains(err.Error(), "--kafka ''") {
		t.Errorf("got %v, want an Exists error that names %q and --kafka", err, holder)
	}
}

// TestStoppedServerGivesTheLeaseBack: the next server need not wait for the TTL, which is
// longer than any test.
func TestStoppedServerGivesTheLeaseBack(t *testing.T) {
	url := testnats.NewServer(t, nil).URL()
	for _, name := range []string{"first.example:9092", "second.example:9092"} {
		n := start(t, onNATS(url, name, lease.MaxTTL))
		if err := n.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLostLease: a server that another one has replaced disconnects its Kafka clients,
// and serves again when the other is silent.
func TestLostLease(t *testing.T) {
	t.Parallel() // it mostly waits
	n := start(t, at(testport.Address(t), onNATS(testnats.NewServer(t, nil).URL(), "", 2*time.Second)))
	cl := kafkaClient(t, n, kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation())
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("before")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	servertest.AwaitMetrics(t, n.URL(), "mainstem_kafka_serving 1")
	var conn net.Conn
	testkit.Succeeds(t, "a client connects", func() (err error) {
		conn, err = net.Dial("tcp", n.kafka.Addr().String())
		return err
	})
	defer conn.Close()

	table, rival := duties(t, n.Log()), map[string]any{"id": "other", "address": "other.example:9092", "ttl_ms": 2000}
	testkit.Eventually(t, "the listener is closed while the other is alive", func() bool {
		// Each round takes the lease: the server may have taken it back since the one before.
		b := mainstem.NewBatch()
		table.PutTo(b, "member/kafka", rival)
		table.PutTo(b, "beat/kafka", map[string]any{"session": 1})
		if _, err := n.Log().Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", n.kafka.Addr().String())
		if err != nil {
			return strings.Contains(servertest.Metrics(t, n.URL()), "\nmainstem_kafka_serving 0")
		}
		c.Close()
		return false
	})
	if err := conn.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a connection of a client survived")
	}
	servertest.AwaitMetrics(t, n.URL(), "mainstem_kafka_serving 1")
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("after")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-n.Failed():
		t.Error(err)
	default:
	}
}

// TestLeaseOfAnUnreachableLog: a server that cannot renew its lease disconnects its Kafka
// clients, and serves them again when the log is back.
func TestLeaseOfAnUnreachableLog(t *testing.T) {
	t.Parallel() // it mostly waits
	nats := testnats.NewServer(t, nil)
	n := start(t, at(testport.Address(t), onNATS(nats.URL(), "", time.Second)))
	accepts := func() bool {
		c, err := net.Dial("tcp", n.kafka.Addr().String())
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	cl := kafkaClient(t, n, kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation())
	nats.Stop()
	testkit.Eventually(t, "the listener is closed", func() bool { return !accepts() })
	nats.Start()
	testkit.Eventually(t, "the listener is open", accepts)
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("after")).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// TestNoLeaseOfALogOfOneProcess: a server that was killed serves Kafka again at once.
func TestNoLeaseOfALogOfOneProcess(t *testing.T) {
	for _, log := range []string{server.Memory, filepath.Join(t.TempDir(), "log"), "nats:embedded?durability=os&store=" + filepath.Join(t.TempDir(), "nats")} {
		n := start(t, onNATS(log, "", lease.MaxTTL))
		if _, err := duties(t, n.Log()).Get(t.Context(), "member/kafka"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("%s: a lease is there: %v", log, err)
		}
	}
}

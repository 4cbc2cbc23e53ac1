package stream

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/internal/testport"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

// TestKafkaGone: a server that dies while it is used, or was never there, is an error
// with its reason, of whatever waits for it.
func TestKafkaGone(t *testing.T) {
	patience := outagePatience
	outagePatience = 50 * time.Millisecond
	t.Cleanup(func() { outagePatience = patience })
	const topic = "topic"
	message := stream.Message{Value: []byte("value")}

	port, err := testport.Free() // nobody else listens there when the cluster is gone
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := dial(t.Context(), cluster.ListenAddrs(), func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, topic); err != nil {
		t.Fatal(err)
	}
	producer, err := c.Producer(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := c.Consumer(ctx, topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := producer.Send(ctx, message); err != nil {
		t.Fatal(err)
	}
	if ms, err := consumer.Fetch(ctx); err != nil || len(ms) != 1 {
		t.Fatal(ms, err)
	}

	cluster.Close()
	var all sync.WaitGroup
	for what, do := range map[string]func() error{
		"send":   func() error { return producer.Send(ctx, message) },
		"fetch":  func() error { _, err := consumer.Fetch(ctx); return err },
		"create": func() error { return c.Create(ctx, "another") },
	} {
		all.Go(func() {
			if err := do(); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("%s on a server that is gone: %v", what, err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(producer.Close(), consumer.Close()); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("topics were removed from a server that is gone: %v", err)
	}
}

// TestKafkaComesBack: a server that answers again in time is not given up.
func TestKafkaComesBack(t *testing.T) {
	c := &conn{close: func() { t.Error("it was given up") }}
	for range 3 {
		c.OnBrokerConnect(kgo.BrokerMetadata{}, 0, nil, net.ErrClosed)
		c.mu.since = c.mu.since.Add(-2 * outagePatience)
		c.OnBrokerRead(kgo.BrokerMetadata{}, 0, 0, 0, 0, nil)
	}
	if c.mu.cause != nil {
		t.Error(c.mu.cause)
	}
}

// TestKafkaLeavesNothing: the topics of a client are gone when it is closed.
func TestKafkaLeavesNothing(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	c, err := dial(t.Context(), cluster.ListenAddrs(), func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"one", "two"} {
		if err := c.Create(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	if n := countTopics(t, cluster); n != 2 {
		t.Fatalf("%d topics are there", n)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if n := countTopics(t, cluster); n != 0 {
		t.Errorf("%d topics are left", n)
	}
}

// countTopics counts the topics of a cluster.
func countTopics(t *testing.T, cluster *kfake.Cluster) int {
	t.Helper()
	c, err := connect(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	res, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), c.Client)
	if err != nil {
		t.Fatal(err)
	}
	return len(res.Topics)
}

// TestKafkaDurability: what the settings of a topic mean.
func TestKafkaDurability(t *testing.T) {
	const never = "9223372036854775807"
	for _, x := range []struct {
		settings string
		want     suite.Durability
	}{
		{"", suite.OS},
		{"flush.messages=" + never + " flush.ms=" + never, suite.OS},
		{"flush.messages=1 flush.ms=" + never, suite.Fsync},
		{"flush.messages=1000 flush.ms=" + never, suite.Interval},
		{"flush.messages=" + never + " flush.ms=1000", suite.Interval},
		{"write.caching=false flush.ms=100", suite.Fsync},
		{"write.caching=true flush.ms=100", suite.Interval},
	} {
		var settings []kmsg.CreateTopicsResponseTopicConfig
		for _, s := range strings.Fields(x.settings) {
			name, value, _ := strings.Cut(s, "=")
			settings = append(settings, kmsg.CreateTopicsResponseTopicConfig{Name: name, Value: &value})
		}
		if got := durability(settings); got != x.want {
			t.Errorf("%q is %s, want %s", x.settings, got, x.want)
		}
	}
}

// TestKafkaSkips: without an address, and where the server has another durability than
// the row, the reason is said.
func TestKafkaSkips(t *testing.T) {
	if reason := kafka("os", suite.OS).Skip(&suite.Env{}); !strings.Contains(reason, "--address kafka=") {
		t.Error(reason)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	env := &suite.Env{Dir: runnertest.Dir(t), Addresses: map[string]string{"kafka": cluster.ListenAddrs()[0]}}
	c, err := kafka("interval", suite.Interval).Client(t.Context(), env, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), "topic"); !errors.Is(err, suite.ErrSkip) {
		t.Errorf("a topic that is to be synced at intervals, and is not: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := countTopics(t, cluster); n != 0 {
		t.Errorf("%d topics are left", n)
	}
}

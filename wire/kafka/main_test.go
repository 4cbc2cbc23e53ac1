package kafka_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/kafkatopic"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka"
	"github.com/mainstemdev/mainstem/wire/kafka/eventtopic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker is a running server.
type broker struct {
	*kafka.Server
	topics *topic.Catalog
	log    mainstem.Log
	addr   string
}

// start serves a log in memory until the test ends.
func start(t testing.TB, o *kafka.Options, as *kafka.Listener) *broker {
	t.Helper()
	return serve(t, testengines.Memory(t), o, as)
}

// withSources returns options with the sources of event stores and tables of alerts, which are
// closed when the test ends.
func withSources(t testing.TB, log mainstem.Log, o *kafka.Options) *kafka.Options {
	t.Helper()
	events, alerts := eventtopic.Open(log, nil), kafkatopic.Open(log, nil)
	t.Cleanup(func() {
		if err := errors.Join(events.Close(), alerts.Close()); err != nil {
			t.Error(err)
		}
	})
	var with kafka.Options
	if o != nil {
		with = *o
	}
	with.Sources = []partition.Source{events, alerts}
	return &with
}

func serve(t testing.TB, log mainstem.Log, o *kafka.Options, as *kafka.Listener) *broker {
	t.Helper()
	topics, err := topic.Open(log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := kafka.Open(t.Context(), topics, withSources(t, log, o))
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l, as) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil && mainstem.KindOf(err) != mainstem.KindClosed { // closed: it had not begun
			t.Error(err)
		}
		if err := topics.Close(); err != nil {
			t.Error(err)
		}
	})
	return &broker{Server: s, topics: topics, log: log, addr: l.Addr().String()}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (b *broker) port(t testing.TB) int32 {
	t.Helper()
	_, port, err := net.SplitHostPort(b.addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

// client returns a franz-go client of b, until the test ends.
func (b *broker) client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.addr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// topic creates a topic.
func (b *broker) topic(t testing.TB, name string, partitions int32) *topic.Topic {
	t.Helper()
	tp, err := b.topics.Create(t.Context(), name, topic.Spec{Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	return tp
}

func spec(partitions int32) topic.Spec { return topic.Spec{Partitions: partitions} }

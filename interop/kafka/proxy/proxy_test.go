package proxy_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/interop/kafka/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin starts a fake broker with a topic, a proxy before it and a client of the proxy.
func begin(t *testing.T, opts ...kgo.Opt) (*proxy.Proxy, *kgo.Client) {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	p, err := proxy.Start(broker.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(p.Address()), kgo.DefaultProduceTopic("t")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return p, cl
}

func produce(t *testing.T, cl *kgo.Client) {
	t.Helper()
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestClientsGetTheProxysAddress(t *testing.T) {
	p, cl := begin(t)
	produce(t, cl) // to the broker that metadata named
	want := p.Address()
	brokers, err := kadm.NewClient(cl).ListBrokers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range brokers {
		if got := net.JoinHostPort(b.Host, "") + portOf(b.Port); got != want {
			t.Errorf("metadata names %s, want %s", got, want)
		}
	}
	found := kadm.NewClient(cl).FindGroupCoordinators(t.Context(), "g")
	if c := found["g"]; c.Err != nil || net.JoinHostPort(c.Host, "")+portOf(c.Port) != want {
		t.Errorf("the coordinator is %s:%d, %v; want %s", c.Host, c.Port, c.Err, want)
	}
}

func portOf(port int32) string {
	_, text, _ := net.SplitHostPort((&net.TCPAddr{Port: int(port)}).String())
	return text
}

func TestCutAnswerMeansDoneButUnanswered(t *testing.T) {
	p, cl := begin(t, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	produce(t, cl)
	key := kmsg.NewProduceRequest()
	first := true
	p.Cut(func(c proxy.Crossing) bool {
		cut := first && c.Answer && c.Key == key.Key()
		first = first && !cut
		return cut
	})
	produce(t, cl) // tries again, and nothing tells the broker that it is the same record
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup("t", 0); end.Offset != 3 || p.Cuts() != 1 {
		t.Errorf("%d records after %d cuts, want 3 after 1", end.Offset, p.Cuts())
	}
}

func TestCutRequestIsNotDone(t *testing.T) {
	p, cl := begin(t, kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	produce(t, cl)
	key := kmsg.NewProduceRequest()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.Cut(func(c proxy.Crossing) bool {
		cut := !c.Answer && c.Key == key.Key()
		if cut && p.Cuts() > 0 { // the client tries again
			cancel()
		}
		return cut
	})
	if err := cl.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); err == nil {
		t.Error("a produce that was cut off was acknowledged")
	}
	p.Cut(nil)
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup("t", 0); end.Offset != 1 || p.Cuts() == 0 {
		t.Errorf("%d records after %d cuts, want 1 after some", end.Offset, p.Cuts())
	}
}

func TestVanishedProxyReturns(t *testing.T) {
	p, cl := begin(t)
	produce(t, cl)
	p.Vanish()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := cl.Ping(ctx); err == nil {
		t.Error("a broker answered through a proxy that has vanished")
	}
	if err := p.Return(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl)
}

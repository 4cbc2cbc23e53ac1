package cluster_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
)

// BenchmarkEvent publishes one value to a million subscribers on ten nodes.
func BenchmarkEvent(b *testing.B) {
	const nodes, each = 10, 100_000
	quiet := &cluster.Options{Listen: "127.0.0.1:0", Secret: secret, Plain: true, Connections: 1}
	origin := join(b, "origin", quiet)
	news, err := actor.NewEvent[Note](origin.node, "news", nil)
	if err != nil {
		b.Fatal(err)
	}
	var got atomic.Int64
	all := make(chan struct{}, 1)
	var subscribing sync.WaitGroup
	var subscribed time.Duration
	for i := range nodes {
		m := join(b, fmt.Sprint("node", i), quiet, origin)
		e := cluster.EventAt[Note](m.Cluster, "origin", "news")
		subscribing.Go(func() {
			begin := time.Now()
			for range each {
				r, err := actor.Spawn(m.node, actor.Func[Note](func(*actor.Context[Note], Note) error {
					if got.Add(1) == nodes*each {
						all <- struct{}{}
					}
					return nil
				}), nil)
				if err = errors.Join(err, e.Subscribe(b.Context(), r)); err != nil {
					b.Error(err)
					return
				}
			}
			subscribed += time.Since(begin)
		})
		subscribing.Wait()
	}
	b.Logf("a million subscribed in %s; the origin has %d", subscribed, news.Len())
	for b.Loop() {
		got.Store(0)
		begin := time.Now()
		if _, err := news.Publish(b.Context(), Note{"test"}); err != nil {
			b.Fatal(err)
		}
		<-all
		b.ReportMetric(nodes*each/time.Since(begin).Seconds(), "deliveries/s")
	}
}

// BenchmarkAsk compares a question and its answer with bytes that go to and fro over TCP.
func BenchmarkAsk(b *testing.B) {
	b.Run("tcp", func(b *testing.B) { percentiles(b, tcpPingPong(b)) })
	b.Run("ask", func(b *testing.B) {
		x, y := two(b, &cluster.Options{Listen: "127.0.0.1:0", Secret: secret, Plain: true})
		r := spawn(b, y, func(_ *actor.Context[Errand], m Errand) error { return m.Reply.Send("pong") }, nil)
		far := seen(b, x, r)
		percentiles(b, func() error {
			_, err := actor.Ask(b.Context(), far, func(p actor.Reply[string]) Errand { return Errand{Text: "ping", Reply: p} })
			return err
		})
	})
}

// percentiles reports how long f takes.
func percentiles(b *testing.B, f func() error) {
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

// askBytes is about how many bytes a small question has on the wire.
const askBytes = 64

func tcpPingPong(b *testing.B) func() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{c}, make([]byte, askBytes))
			c.Close()
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	buf := make([]byte, askBytes)
	return func() error {
		_, err := c.Write(buf)
		if err == nil {
			_, err = io.ReadFull(c, buf)
		}
		return err
	}
}

package cluster_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
)

// pong counts messages, and reports when it has all.
type pong struct {
	got, want int
	done      *sync.WaitGroup
}

func (p *pong) Receive(_ *actor.Context[int], _ int) error {
	if p.got++; p.got == p.want {
		p.done.Done()
	}
	return nil
}

// pingPong sends n messages over each of some pairs of actors on two nodes.
func pingPong(b *testing.B, o *cluster.Options, pairs, n int) {
	x, y := two(b, o)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		var done sync.WaitGroup
		done.Add(pairs)
		var senders []actor.Ref[struct{}]
		var errs atomic.Int64
		for range pairs {
			r, err := actor.Spawn(y.node, &pong{want: n, done: &done}, nil)
			if err != nil {
				b.Fatal(err)
			}
			far := seen(b, x, r)
			if err := far.Send(ctx, 1); err != nil { // connected
				b.Fatal(err)
			}
			defer r.Kill()
			sender := func(c *actor.Context[struct{}], _ struct{}) error {
				for range n - 1 {
					if err := far.Send(c, 1); err != nil {
						errs.Add(1)
					}
				}
				return nil
			}
			s, err := actor.Spawn(x.node, actor.Func[struct{}](sender), nil)
			if err != nil {
				b.Fatal(err)
			}
			senders = append(senders, s)
		}
		begin := time.Now()
		for _, s := range senders {
			if err := s.Send(ctx, struct{}{}); err != nil {
				b.Fatal(err)
			}
		}
		done.Wait()
		b.ReportMetric(float64(pairs*n)/time.Since(begin).Seconds(), "msg/s")
		if errs.Load() > 0 {
			b.Fatal(errs.Load(), "errors")
		}
	}
}

func BenchmarkNetwork(b *testing.B) {
	plain := &cluster.Options{Listen: "127.0.0.1:0", Secret: secret, Plain: true}
	b.Run("one", func(b *testing.B) { pingPong(b, plain, 1, 3_000_000) })
	b.Run("pairs", func(b *testing.B) { pingPong(b, plain, runtime.NumCPU(), 1_000_000) })
	b.Run("one/tls", func(b *testing.B) { pingPong(b, secured, 1, 3_000_000) })
}

package actor_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/actor"
)

// sinks starts n actors that count down one WaitGroup, a message each.
func sinks(b *testing.B, node *actor.Node, n int, wg *sync.WaitGroup) []actor.Ref[int] {
	refs := make([]actor.Ref[int], n)
	for i := range refs {
		r, err := actor.Spawn(node, actor.Func[int](func(*actor.Context[int], int) error {
			wg.Done()
			return nil
		}), nil)
		if err != nil {
			b.Fatal(err)
		}
		refs[i] = r
	}
	return refs
}

type burst struct {
	to actor.Ref[int]
	n  int
}

func benchmarkPairs(b *testing.B, pairs int) {
	node := open(b)
	var wg sync.WaitGroup
	to := sinks(b, node, pairs, &wg)
	each := b.N/pairs + 1
	wg.Add(each * pairs)
	from := make([]actor.Ref[burst], pairs)
	for i := range from {
		from[i], _ = actor.Spawn(node, actor.Func[burst](func(c *actor.Context[burst], m burst) error {
			for range m.n {
				if err := m.to.Send(c, 1); err != nil {
					return err
				}
			}
			return nil
		}), nil)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i, f := range from {
		if err := f.Send(b.Context(), burst{to[i], each}); err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
	b.ReportMetric(float64(each*pairs)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
}

func BenchmarkSendOneToOne(b *testing.B) { benchmarkPairs(b, 1) }
func BenchmarkSendTwoPairs(b *testing.B) { benchmarkPairs(b, 2) }

func BenchmarkSendFourToOne(b *testing.B) {
	node := open(b)
	var wg sync.WaitGroup
	to := sinks(b, node, 1, &wg)[0]
	const senders = 4
	each := b.N/senders + 1
	wg.Add(each * senders)
	b.ReportAllocs()
	b.ResetTimer()
	for range senders {
		go func() {
			for range each {
				_ = to.Send(context.Background(), 1)
			}
		}()
	}
	wg.Wait()
}

func BenchmarkBaselineChannel(b *testing.B) {
	var wg sync.WaitGroup
	wg.Add(b.N)
	c := make(chan int, 1024)
	go func() {
		for range c {
			wg.Done()
		}
	}()
	b.ResetTimer()
	for range b.N {
		c <- 1
	}
	wg.Wait()
	close(c)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
}

func BenchmarkBaselineMutexSlice(b *testing.B) {
	var wg sync.WaitGroup
	wg.Add(b.N)
	var mu sync.Mutex
	var q []int
	bell := make(chan struct{}, 1)
	go func() {
		var mine []int
		for range bell {
			mu.Lock()
			mine, q = q, mine[:0]
			mu.Unlock()
			for range mine {
				wg.Done()
			}
		}
	}()
	b.ResetTimer()
	for range b.N {
		mu.Lock()
		q = append(q, 1)
		mu.Unlock()
		select {
		case bell <- struct{}{}:
		default:
		}
	}
	wg.Wait()
	close(bell)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
}

type get struct{ reply actor.Reply[int] }

func BenchmarkAsk(b *testing.B) {
	node := open(b)
	to, _ := actor.Spawn(node, actor.Func[get](func(_ *actor.Context[get], m get) error {
		return m.reply.Send(1)
	}), nil)
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := actor.Ask(ctx, to, func(r actor.Reply[int]) get { return get{r} }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBaselineRoundTrip(b *testing.B) {
	ask, reply := make(chan int), make(chan int)
	go func() {
		for x := range ask {
			reply <- x
		}
	}()
	b.ResetTimer()
	for range b.N {
		ask <- 1
		<-reply
	}
	close(ask)
}

type quiet struct{}

func (*quiet) Receive(*actor.Context[int], int) error { return nil }

// BenchmarkIdle starts a million actors that do nothing.
func BenchmarkIdle(b *testing.B) {
	const million = 1_000_000
	for range b.N {
		node := open(b)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		for range million {
			if _, err := actor.Spawn(node, &quiet{}, nil); err != nil {
				b.Fatal(err)
			}
		}
		took := time.Since(start)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/million, "B/actor")
		b.ReportMetric(took.Seconds(), "s/million")
		start = time.Now()
		if err := node.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(start).Seconds(), "s/stop")
	}
}

// BenchmarkEventMillion publishes one event to a million subscribers.
func BenchmarkEventMillion(b *testing.B) {
	const million = 1_000_000
	node := open(b)
	var wg sync.WaitGroup
	e := event[int](b, node, "", nil)
	for _, r := range sinks(b, node, million, &wg) {
		subscribe(b, e, r)
	}
	runtime.GC()
	b.ResetTimer()
	for range b.N {
		wg.Add(million)
		publish(b, e, 1)
		wg.Wait()
	}
	b.ReportMetric(float64(b.N)*million/b.Elapsed().Seconds()/1e6, "Mdeliveries/s")
}

package actor_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem/actor"
)

// BenchmarkMany sends b.N messages through routers, pools and keys.
func BenchmarkMany(b *testing.B) {
	const actors = 8
	var wg sync.WaitGroup
	sink := func() actor.Func[int] {
		return func(*actor.Context[int], int) error { wg.Done(); return nil }
	}
	key := func(m int) string { return strconv.Itoa(m % 64) }
	pool := func(o *actor.PoolOptions[int]) func(*actor.Node) (func(int) actor.Ref[int], error) {
		o.Workers = actors
		return func(n *actor.Node) (func(int) actor.Ref[int], error) {
			p, err := actor.NewPool(n, sink, o)
			return func(int) actor.Ref[int] { return p.Ref() }, err
		}
	}
	for name, make := range map[string]func(*actor.Node) (func(int) actor.Ref[int], error){
		"round robin":  pool(&actor.PoolOptions[int]{}),
		"least loaded": pool(&actor.PoolOptions[int]{Routing: actor.LeastLoaded}),
		"by key":       pool(&actor.PoolOptions[int]{Routing: actor.ByKey, Key: key}),
		"keyed": func(n *actor.Node) (func(int) actor.Ref[int], error) {
			k, err := actor.NewKeyed(n, func(int) actor.Func[int] { return sink() }, nil)
			return func(i int) actor.Ref[int] { return k.Ref(i % actors) }, err
		},
	} {
		b.Run(name, func(b *testing.B) {
			to, err := make(open(b))
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			wg.Add(b.N)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if err := to(i).Send(ctx, i); err != nil {
					b.Fatal(err)
				}
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
		})
	}
}

// BenchmarkBroadcast sends to a group of a thousand.
func BenchmarkBroadcast(b *testing.B) {
	const members = 1000
	node := open(b)
	var wg sync.WaitGroup
	g := group[int](b, node, "")
	for _, r := range sinks(b, node, members, &wg) {
		if err := g.Join(r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		wg.Add(members)
		if _, err := g.Broadcast(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
		wg.Wait()
	}
	b.ReportMetric(float64(b.N)*members/b.Elapsed().Seconds()/1e6, "Mdeliveries/s")
}

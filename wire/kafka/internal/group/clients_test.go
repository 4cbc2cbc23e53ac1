package group_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// readers records which client of a group reads which partition.
type readers struct {
	t     *testing.T
	group string
	mu    sync.Mutex
	by    map[int32]string
}

// client runs a consumer that records the partitions it is assigned.
func (o *readers) client(name, addr string, opts ...kgo.Opt) *kgo.Client {
	drop := func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, n := range gone["t"] {
			if o.by[n] == name {
				delete(o.by, n)
			}
		}
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr), kgo.ConsumerGroup(o.group), kgo.ConsumeTopics("t"), kgo.ClientID(name),
		kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, n := range got["t"] {
				if other := o.by[n]; other != "" {
					o.t.Errorf("partition %d is given to %s while %s has it", n, name, other)
				}
				o.by[n] = name
			}
		}),
		kgo.OnPartitionsRevoked(drop), kgo.OnPartitionsLost(drop),
	}, opts...)...)
	if err != nil {
		panic(err) // of the options
	}
	return cl
}

// patience is the longest time of one rebalance.
const patience = 40 * time.Second

// wait returns when the partitions are spread over exactly these clients.
func (o *readers) wait(what string, names ...string) {
	end := time.After(patience)
	for {
		spread := o.spread()
		done := len(spread) == len(names)
		for _, name := range names {
			done = done && spread[name] == 6/len(names)
		}
		if done {
			return
		}
		select {
		case <-end:
			o.t.Errorf("%s, %s: partitions are with %v", o.group, what, spread)
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// spread returns how many partitions each client has.
func (o *readers) spread() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[string]int{}
	for _, name := range o.by {
		out[name]++
	}
	return out
}

// Real clients change the protocol of their group one by one, and back.
func TestClientsSwitchProtocol(t *testing.T) {
	t.Parallel()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	topics, err := topic.Open(log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer topics.Close()
	if _, err := topics.Create(t.Context(), "t", topic.Spec{Partitions: 6}); err != nil {
		t.Fatal(err)
	}
	s, err := kafka.Open(t.Context(), topics, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l, nil) }()
	defer func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil && mainstem.KindOf(err) != mainstem.KindClosed {
			t.Error(err)
		}
	}()
	var wg sync.WaitGroup // both groups run at the same time: mostly they wait for heartbeats
	defer wg.Wait()
	for name, balancer := range map[string]kgo.GroupBalancer{"cooperative": kgo.CooperativeStickyBalancer(), "eager": kgo.RangeBalancer()} {
		wg.Go(func() { switchProtocol(t, l.Addr().String(), name, kgo.Balancers(balancer)) })
	}
}

func switchProtocol(t *testing.T, addr, group string, classic kgo.Opt) {
	o := &readers{t: t, group: group, by: map[int32]string{}}
	a, b := o.client("a", addr, classic), o.client("b", addr, classic)
	o.wait("two classic members", "a", "b")
	c := o.client("c", addr, kgo.ServerSideBalancer())
	o.wait("a consumer member joins", "a", "b", "c")
	a.Close()
	b.Close()
	o.wait("the classic members leave", "c")
	d := o.client("d", addr, classic)
	o.wait("a classic member comes back", "c", "d")
	c.Close()
	o.wait("the last consumer member leaves", "d")
	e := o.client("e", addr, classic)
	o.wait("the group is classic", "d", "e")
	d.Close()
	e.Close()
	if len(o.by) > 0 {
		t.Errorf("after all have left: %s", fmt.Sprint(o.by))
	}
}

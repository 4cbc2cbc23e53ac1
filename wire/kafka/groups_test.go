package kafka_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Members of groups of both protocols share the partitions, and continue at the stored offsets.
func TestGroups(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"classic":  {},
		"consumer": {kgo.ServerSideBalancer()},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, nil, nil)
			b.topic(t, "t", 6)
			opts := append([]kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)
			writer := b.client(t, kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
			produce := func(from, to int) {
				for i := from; i < to; i++ {
					if err := writer.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}
			produce(0, 60)
			seen := consumeAll(t, 60, b.client(t, opts...), b.client(t, opts...), b.client(t, opts...))
			produce(60, 90)
			for v := range consumeAll(t, 30, b.client(t, opts...)) {
				if seen[v] {
					t.Errorf("record %s came twice", v)
				}
				seen[v] = true
			}
			if len(seen) != 90 {
				t.Errorf("%d records, want 90", len(seen))
			}
		})
	}
}

// consumeAll consumes n different records with all members of a group, commits them and
// makes the members leave.
func consumeAll(t *testing.T, n int, members ...*kgo.Client) map[string]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for _, cl := range members {
		wg.Go(func() {
			for ctx.Err() == nil {
				fs := cl.PollFetches(ctx)
				if fs.Empty() {
					continue
				}
				if err := cl.CommitRecords(context.Background(), fs.Records()...); err != nil {
					t.Logf("commit: %v", err) // a rebalance was faster: the records come again
					continue
				}
				mu.Lock()
				fs.EachRecord(func(r *kgo.Record) { seen[string(r.Value)] = true })
				if len(seen) == n {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, cl := range members {
		cl.Close()
	}
	if len(seen) != n {
		t.Fatalf("%d records, want %d", len(seen), n)
	}
	return seen
}

// TestClientHost: the host of a member is shown as Kafka shows it, with the slash that
// Java puts before an address.
func TestClientHost(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "t", 1)
	join := func(group string, opts ...kgo.Opt) {
		t.Helper()
		cl := b.client(t, append(opts, kgo.ConsumerGroup(group), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.PollFetches(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	join("classic")
	join("consumer", kgo.ServerSideBalancer())
	c := b.raw(t)
	classic := kmsg.NewPtrDescribeGroupsRequest()
	classic.Groups = []string{"classic"}
	if g := ask[*kmsg.DescribeGroupsResponse](c, classic, 5).Groups[0]; len(g.Members) != 1 || g.Members[0].ClientHost != "/127.0.0.1" {
		t.Errorf("%+v", g)
	}
	consumer := kmsg.NewPtrConsumerGroupDescribeRequest()
	consumer.Groups = []string{"consumer"}
	if g := ask[*kmsg.ConsumerGroupDescribeResponse](c, consumer, 1).Groups[0]; len(g.Members) != 1 || g.Members[0].ClientHost != "/127.0.0.1" {
		t.Errorf("%+v", g)
	}
}

// gated is a log of which the scan for members of groups waits for the gate.
type gated struct {
	mainstem.Log
	gate chan struct{}
}

// Scan implements [mainstem.Log].
func (g *gated) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	if space == partition.GroupSpace && string(r.Prefix) == "m" {
		<-g.gate
	}
	return g.Log.Scan(ctx, space, r)
}

// ListGroups does not wait while the groups are loaded after a start, so that other requests do not
// wait for it. Clients list the groups afterwards.
func TestListGroupsDuringStart(t *testing.T) {
	log := &gated{Log: testengines.Memory(t), gate: make(chan struct{})}
	b := serve(t, log, nil, nil)
	open := sync.OnceFunc(func() { close(log.gate) })
	t.Cleanup(open)
	b.topic(t, "t", 1)
	for range 8 { // as many as are served at the same time
		c := b.raw(t)
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		if code := ask[*kmsg.ListGroupsResponse](c, kmsg.NewPtrListGroupsRequest(), 5).ErrorCode; code != kerr.CoordinatorLoadInProgress.Code {
			t.Errorf("code %d", code)
		}
	}
	if got := ask[*kmsg.MetadataResponse](b.raw(t), kmsg.NewPtrMetadataRequest(), 13); len(got.Topics) != 1 {
		t.Errorf("%d topics, want 1", len(got.Topics))
	}
	cl := b.client(t, kgo.WithHooks(afterList(open)))
	if resp, err := kmsg.NewPtrListGroupsRequest().RequestWith(t.Context(), cl); err != nil || resp.ErrorCode != 0 {
		t.Errorf("a client that tries again: %+v, %v", resp, err)
	}
}

// afterList is a hook of a client that is called when it gets an answer to ListGroups.
type afterList func()

// OnBrokerRead implements [kgo.HookBrokerRead].
func (f afterList) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.ListGroups) {
		f()
	}
}

package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// counted records the calls of a server.
type counted struct {
	sync.Mutex
	connections, refused, records, bytes int
	notCreated                           int
	served                               map[string]int
	in, out                              int
}

func (c *counted) Connected(n int) {
	c.Lock()
	defer c.Unlock()
	c.connections += n
}

func (c *counted) NotCreated() {
	c.Lock()
	defer c.Unlock()
	c.notCreated++
}

func (c *counted) Refused() {
	c.Lock()
	defer c.Unlock()
	c.refused++
}

func (c *counted) Served(api string, took time.Duration, in, out int) {
	c.Lock()
	defer c.Unlock()
	if took < 0 {
		api = "in no time"
	}
	c.served[api]++
	c.in, c.out = c.in+in, c.out+out
}

func (c *counted) Produced(records, bytes int) {
	c.Lock()
	defer c.Unlock()
	c.records, c.bytes = c.records+records, c.bytes+bytes
}

func TestMetrics(t *testing.T) {
	m := &counted{served: map[string]int{}}
	b := start(t, &kafka.Options{Metrics: m}, nil)
	b.topic(t, "t", 1)
	for _, acks := range []kgo.Acks{kgo.AllISRAcks(), kgo.NoAck()} {
		cl := b.client(t, kgo.DefaultProduceTopic("t"), kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
		var rs []*kgo.Record
		for i := range 10 {
			rs = append(rs, kgo.StringRecord(fmt.Sprint(i)))
		}
		if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		reader := b.client(t, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		records(t, reader, 10)
		cl.Close()
		reader.Close()
	}
	testkit.Eventually(t, "every request is counted and every connection has ended", func() bool {
		m.Lock()
		defer m.Unlock()
		return m.connections == 0 && m.records == 20 && m.bytes > 200 && m.served["Produce"] >= 2 && m.served["Fetch"] >= 2 &&
			m.served["in no time"] == 0 && m.in > m.bytes && m.out > m.bytes
	})
}

func TestRefusedConnectionsAreCounted(t *testing.T) {
	m := &counted{served: map[string]int{}}
	b := start(t, &kafka.Options{Metrics: m, MaxConnections: 1}, nil)
	_ = b.raw(t)
	testkit.Eventually(t, "the first is counted", func() bool {
		m.Lock()
		defer m.Unlock()
		return m.connections == 1
	})
	b.raw(t).closed()
	m.Lock()
	defer m.Unlock()
	if m.connections != 1 || m.refused != 1 {
		t.Errorf("%d connections, %d refused; want 1 and 1", m.connections, m.refused)
	}
}

func TestLags(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 2)
	gone := b.topic(t, "gone", 1)
	publish(t, tp, 1, "a", "b", "c")
	s := eventStore(t, b, "s")
	commits(t, b.log, s)
	event, err := b.client(t), error(nil)
	id := topic.ID(described(t, event, "event.s")["event.s"].TopicID)
	for _, o := range []struct {
		of interface {
			CommitOffset(ctx context.Context, partition int32, off topic.Offset) error
		}
		num  int32
		next int64
	}{{tp.Offsets("g"), 1, 1}, {tp.Offsets("h"), 1, 3}, {tp.Offsets("h"), 0, 7}, {gone.Offsets("g"), 0, 0}, {partition.NewOffsets(b.log, "g", "event.s", id), 0, 1}} {
		if err = o.of.CommitOffset(t.Context(), o.num, topic.Offset{Next: o.next, LeaderEpoch: -1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.topics.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for l, err := range b.Lags(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got[fmt.Sprintf("%s %s/%d", l.Group, l.Topic, l.Partition)] = l.Offsets()
	}
	end := offsetAt(t, event, "event.s", -1).Offset
	want := map[string]int64{"g t/1": 2, "h t/1": 0, "h t/0": 0, "g event.s/0": end - 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("lags %v, want %v", got, want)
	}
}

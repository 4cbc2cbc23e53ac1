package kafkaserver_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/wire/kafka/kafkaserver"
)

// fetchUnread sends a fetch of everything in partition 0 of a topic and reads nothing.
func fetchUnread(t *testing.T, n running, name string) {
	t.Helper()
	nc, err := new(net.Dialer).DialContext(t.Context(), "tcp", n.kafka.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if err := nc.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(4)
	req.ReplicaID, req.MaxBytes = -1, 64<<20
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 64 << 20
	req.Topics = []kmsg.FetchRequestTopic{{Topic: name, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	if _, err := nc.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
		t.Fatal(err)
	}
}

// metric returns the value of one line of the metrics, 0 if there is none.
func metric(t *testing.T, n running, name string) float64 {
	t.Helper()
	for line := range strings.Lines(servertest.Metrics(t, n.URL())) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return 0
}

// createTopic creates a topic with one configuration.
func createTopic(t *testing.T, cl *kgo.Client, name, key, value string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: key, Value: &value}}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("%+v: %v", resp, err)
	}
}

// Many clients that fetch and read nothing and producers whose batches expand share a small budget
// with a consumer that reads: it gets everything, and memory does not grow.
func TestKafkaClientsShareTheMemory(t *testing.T) {
	t.Parallel() // it mostly waits
	const (
		limit   = 32 << 20
		value   = 6 << 20 // of a record that is fetched; answers stay in memory until they are read
		expands = 2 << 20 // what a small batch decompresses to
		records = 2
	)
	n := start(t, func(c *server.Config, _ *kafkaserver.Config) { c.MemoryBudget = limit })
	producer := kafkaClient(t, n, kgo.ProducerBatchMaxBytes(8<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	createTopic(t, producer, "large", "max.message.bytes", fmt.Sprint(8<<20))
	createTopic(t, producer, "compacted", "cleanup.policy", "compact")
	raw := kafkaClient(t, n, kgo.ProducerBatchMaxBytes(8<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range records {
		if err := raw.ProduceSync(ctx, &kgo.Record{Topic: "large", Value: bytes.Repeat([]byte{byte(i)}, value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		fetchUnread(t, n, "large")
	}
	testkit.Eventually(t, "somebody waits for memory, or has waited", func() bool {
		return metric(t, n, `mainstem_memory_waited_total{budget="kafka answers"}`) > 0
	})
	var producers sync.WaitGroup
	for i := range 8 {
		producers.Go(func() {
			r := &kgo.Record{Topic: "compacted", Key: fmt.Append(nil, i), Value: make([]byte, expands)}
			if err := producer.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Error(err)
			}
		})
	}
	reader := kafkaClient(t, n, kgo.ConsumeTopics("large"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := 0
	for got < records {
		polled, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		fs := reader.PollFetches(polled)
		stop()
		got += fs.NumRecords()
		// One batch may be decompressed although the budget is used up, see package budget.
		if used := metric(t, n, `mainstem_memory_used_bytes{budget="process"}`); used > limit+2*expands {
			t.Fatalf("%.0f bytes are used", used)
		}
	}
	producers.Wait()
	for _, name := range []string{
		`mainstem_memory_recalled_total{budget="kafka answers"}`, `mainstem_memory_limit_bytes{budget="kafka requests"}`,
	} {
		if metric(t, n, name) == 0 {
			t.Errorf("%s is 0", name)
		}
	}
}

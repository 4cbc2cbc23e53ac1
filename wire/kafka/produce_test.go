package kafka_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// records polls until there are n records, or fails the test.
func records(t *testing.T, cl *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	var out []*kgo.Record
	for len(out) < n {
		fs := cl.PollFetches(t.Context())
		for _, e := range fs.Errors() {
			t.Fatalf("after %d records: %+v", len(out), e)
		}
		out = append(out, fs.Records()...)
	}
	return out
}

func TestProduceAndConsume(t *testing.T) {
	b := start(t, nil, nil)
	for _, acks := range []kgo.Acks{kgo.AllISRAcks(), kgo.LeaderAck(), kgo.NoAck()} {
		for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
			name := fmt.Sprintf("t-%v-%v", acks, codec)
			name = fmt.Sprintf("t%x", name)
			b.topic(t, name, 3)
			cl := b.client(t, kgo.RequiredAcks(acks), kgo.ProducerBatchCompression(codec), kgo.DisableIdempotentWrite(), kgo.DefaultProduceTopic(name))
			var want []*kgo.Record
			for i := range 100 {
				want = append(want, kgo.KeyStringRecord(fmt.Sprint("k", i), fmt.Sprint("v", i)))
			}
			if err := cl.ProduceSync(t.Context(), want...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			reader := b.client(t, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			seen := map[string]string{}
			for _, r := range records(t, reader, len(want)) {
				seen[string(r.Key)] = string(r.Value)
			}
			for _, r := range want {
				if seen[string(r.Key)] != string(r.Value) {
					t.Errorf("%s: key %s has %q", name, r.Key, seen[string(r.Key)])
				}
			}
		}
	}
}

func TestConsumeFromTail(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "t", 1)
	reader := b.client(t, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(10*time.Second))
	writer := b.client(t, kgo.DefaultProduceTopic("t"), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
	for i := range 200 {
		if err := writer.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if got := records(t, reader, 1); string(got[0].Value) != fmt.Sprint(i) {
			t.Fatalf("record %d is %q", i, got[0].Value)
		}
	}
}

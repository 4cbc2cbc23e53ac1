package kafka_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
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

// The answer to a Produce request says where the partition begins, also for batches of an
// idempotent producer.
func TestProduceAnswersWithStart(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 1)
	c := b.raw(t)
	produce := func(batch []byte) (offset, start int64) {
		t.Helper()
		p := ask[*kmsg.ProduceResponse](c, produceOf(batch), 9).Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
		return p.BaseOffset, p.LogStartOffset
	}
	plain := batchOf(t, []byte("v"), recordbatch.None)
	for range 3 {
		if offset, start := produce(plain); start != 0 {
			t.Errorf("offset %d, start %d", offset, start)
		}
	}
	if _, err := tp.DeleteRecords(t.Context(), 0, 2); err != nil {
		t.Fatal(err)
	}
	if offset, start := produce(plain); offset != 3 || start != 2 {
		t.Errorf("offset %d, start %d", offset, start)
	}
	id := ask[*kmsg.InitProducerIDResponse](c, kmsg.NewPtrInitProducerIDRequest(), 1)
	idempotent := slices.Clone(plain)
	binary.BigEndian.PutUint64(idempotent[43:], uint64(id.ProducerID))
	binary.BigEndian.PutUint16(idempotent[51:], uint16(id.ProducerEpoch))
	binary.BigEndian.PutUint32(idempotent[53:], 0) // the first sequence number
	binary.BigEndian.PutUint32(idempotent[17:], crc32.Checksum(idempotent[21:], crc32.MakeTable(crc32.Castagnoli)))
	for range 2 { // the second is a duplicate
		if offset, start := produce(idempotent); offset != 4 || start != 2 {
			t.Errorf("offset %d, start %d", offset, start)
		}
	}
	req := produceOf(plain)
	req.Topics[0].Partitions[0].Partition = 1
	if p := ask[*kmsg.ProduceResponse](c, req, 9).Topics[0].Partitions[0]; p.ErrorCode == 0 || p.LogStartOffset != -1 {
		t.Errorf("%+v", p)
	}
}

package kafka_test

import (
	"context"
	"encoding/binary"
	"iter"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// counting is a log that counts the records that its Read yields.
type counting struct {
	mainstem.Log
	records atomic.Int64
}

func (l *counting) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		for r, err := range l.Log.Read(ctx, space, key, v) {
			if l.records.Add(1); !yield(r, err) {
				return
			}
		}
	}
}

// waitingFetch asks for 1 MiB of topic t, and waits up to 5 minutes for it.
func waitingFetch() *kmsg.FetchRequest {
	req := fetchAll("t")
	req.MinBytes, req.MaxWaitMillis = 1<<20, 300_000
	return req
}

// part receives the answer to a fetch of one partition, of a version below 12.
func (c *raw) part(version int16) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	_, body := c.receive()
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(version)
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0]
}

// A fetch that waits reads each batch once, however often the partition grows.
func TestWaitingFetchReadsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		log := &counting{Log: stocked(t, 0, 0)}
		l := pipedOn(t, log, nil, nil)
		c, p := l.dial(t), l.dial(t)
		c.send(waitingFetch(), 4)
		synctest.Wait()
		batch := batchOf(t, make([]byte, 1000), recordbatch.None)
		for range n {
			p.send(produceOf(batch), 9)
			p.produced()
			synctest.Wait()
		}
		part := c.part(4)
		if part.ErrorCode != 0 || part.HighWatermark != n || len(part.RecordBatches) != n*len(batch) {
			t.Fatalf("error %d, end %d, %d bytes: want %d batches of %d", part.ErrorCode, part.HighWatermark, len(part.RecordBatches), n, len(batch))
		}
		for i := range n {
			if base := binary.BigEndian.Uint64(part.RecordBatches[i*len(batch):]); base != uint64(i) {
				t.Fatalf("batch %d is at offset %d", i, base)
			}
		}
		if got := log.records.Load(); got > 3*n {
			t.Errorf("%d records were read for %d batches", got, n)
		}
	})
}

// Partitions without records have no error, also if the wait ends while they are read.
func TestShortWaitForManyPartitions(t *testing.T) {
	const partitions = 2000
	b := start(t, nil, nil)
	b.topic(t, "t", partitions)
	c := b.raw(t)
	for _, level := range []int8{0, 1} {
		req := fetchOf("t", make([]int64, partitions)...)
		req.MaxWaitMillis, req.IsolationLevel = 1, level
		got := fetched(ask[*kmsg.FetchResponse](c, req, 12))
		if len(got) != partitions {
			t.Errorf("isolation level %d: %d partitions", level, len(got))
		}
		for num, p := range got {
			if p.ErrorCode != 0 {
				t.Fatalf("isolation level %d: partition %d: %v", level, num, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
}

// aborted stores the batch of one record in a transaction of its own, and aborts it.
func (c *raw) aborted(id string) {
	c.t.Helper()
	begin := kmsg.NewPtrInitProducerIDRequest()
	begin.TransactionalID, begin.TransactionTimeoutMillis = &id, 60_000
	got := ask[*kmsg.InitProducerIDResponse](c, begin, 4)
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = id, got.ProducerID, got.ProducerEpoch
	add.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	ask[*kmsg.AddPartitionsToTxnResponse](c, add, 3)
	batch := batchOf(c.t, []byte(id), recordbatch.None)
	batch[22] |= 1 << 4 // transactional
	binary.BigEndian.PutUint64(batch[43:], uint64(got.ProducerID))
	binary.BigEndian.PutUint16(batch[51:], uint16(got.ProducerEpoch))
	binary.BigEndian.PutUint32(batch[53:], 0)
	binary.BigEndian.PutUint32(batch[17:], recordbatch.Checksum(batch))
	req := produceOf(batch)
	req.TransactionID = &id
	c.send(req, 9)
	c.produced()
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch = id, got.ProducerID, got.ProducerEpoch
	if resp := ask[*kmsg.EndTxnResponse](c, end, 3); resp.ErrorCode != 0 {
		c.t.Errorf("aborting %s: %+v", id, resp)
	}
}

// A fetch of committed records that has waited while transactions were aborted gets what one gets
// that comes afterwards.
func TestWaitingFetchOfCommittedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipedOn(t, stocked(t, 1, 10), nil, nil)
		c, p := l.dial(t), l.dial(t)
		req := waitingFetch()
		req.IsolationLevel = 1
		c.send(req, 11)
		for _, id := range []string{"one", "two"} {
			synctest.Wait()
			p.aborted(id)
			synctest.Wait()
			p.send(produceOf(batchOf(t, []byte(id), recordbatch.None)), 9)
			p.produced()
		}
		waited := c.part(11)
		req.MaxWaitMillis = 0
		c.send(req, 11)
		at := c.part(11)
		if !reflect.DeepEqual(at, waited) || len(at.AbortedTransactions) != 2 || at.LastStableOffset != 7 {
			t.Errorf("a fetch afterwards gets\n%+v; one that has waited gets\n%+v", at, waited)
		}
	})
}

// A fetch that can get no more bytes than it has does not wait for MinBytes.
func TestFullAnswerDoesNotWait(t *testing.T) {
	const batch = 16 << 10
	for _, tt := range []struct {
		name   string
		o      kafka.Options
		change func(*kmsg.FetchRequest)
	}{
		{"limit of the partition", kafka.Options{}, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].PartitionMaxBytes = 1 << 20 }},
		{"limit of the request", kafka.Options{}, func(r *kmsg.FetchRequest) { r.MaxBytes = 1 << 20 }},
		{"limit of the server", kafka.Options{MaxFetch: 1 << 20}, func(*kmsg.FetchRequest) {}},
		{"memory", kafka.Options{MaxRequest: 1 << 20, Memory: budget.New("process", 2<<20)}, func(*kmsg.FetchRequest) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, level := range []int8{0, 1} {
				synctest.Test(t, func(t *testing.T) {
					c := pipedOn(t, stocked(t, 3<<20/batch, batch), &tt.o, nil).dial(t)
					req := waitingFetch()
					req.IsolationLevel = level
					tt.change(req)
					begin := time.Now()
					c.send(req, 11)
					if part := c.part(11); len(part.RecordBatches) < 400<<10 || time.Since(begin) != 0 {
						t.Errorf("isolation level %d: %d bytes after %s", level, len(part.RecordBatches), time.Since(begin))
					}
				})
			}
		})
	}
}

// An answer whose limit leaves out all batches of a further partition does not wait, either.
func TestFullAnswerWithoutAPartition(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 2)
	publish(t, tp, 0, "a")
	publish(t, tp, 1, "b")
	c := b.raw(t)
	req := fetchOf("t", 0)
	first := len(fetched(ask[*kmsg.FetchResponse](c, req, 12))[0].RecordBatches)
	req = fetchOf("t", 0, 0)
	req.MinBytes, req.MaxBytes, req.MaxWaitMillis = 1<<20, int32(first), 600_000
	got := fetched(ask[*kmsg.FetchResponse](c, req, 12)) // does not wait
	if len(got[0].RecordBatches) != first || len(got[1].RecordBatches) != 0 || got[1].HighWatermark != 1 {
		t.Errorf("%+v", got)
	}
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Judge looks at the broker with franz-go, whichever library is on trial.
type Judge struct {
	t  testing.TB
	cl *kgo.Client
	ad *kadm.Client
	// address is where other clients of the judge connect.
	address string
}

// NewJudge returns a judge that ends with the test.
func NewJudge(t testing.TB, address string) *Judge {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatalf("open the judge: %v", err)
	}
	t.Cleanup(cl.Close)
	return &Judge{t, cl, kadm.NewClient(cl), address}
}

// CreateTopic makes a topic.
func (j *Judge) CreateTopic(ctx context.Context, name string, partitions int32) {
	j.t.Helper()
	if _, err := j.ad.CreateTopic(ctx, partitions, 1, nil, name); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		j.t.Fatalf("create topic %s: %v", name, err)
	}
}

// End returns the number of offsets given in all partitions of a topic.
func (j *Judge) End(ctx context.Context, topic string) int64 {
	j.t.Helper()
	ends, err := j.ad.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		j.t.Fatalf("end of %s: %v", topic, err)
	}
	var n int64
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// Members waits until a group has n members and rests.
func (j *Judge) Members(ctx context.Context, group string, n int) {
	j.t.Helper()
	err := eventually(ctx, func() error {
		state, members, err := j.group(ctx, group)
		if err == nil && (members != n || state != "Stable" && n > 0) {
			err = fmt.Errorf("state %s, %d members, want %d", state, members, n)
		}
		return err
	})
	if err != nil {
		j.t.Fatalf("group %s: %v", group, err)
	}
}

// group asks in the way of KIP-848, and in the classic one if that knows nothing.
func (j *Judge) group(ctx context.Context, group string) (state string, members int, err error) {
	if d, err := j.ad.DescribeConsumerGroups(ctx, group); err == nil && d[group].Err == nil && d[group].State != "Dead" {
		return d[group].State, len(d[group].Members), nil
	}
	d, err := j.ad.DescribeGroups(ctx, group)
	if err == nil {
		err = d[group].Err
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return "Dead", 0, nil
	}
	return d[group].State, len(d[group].Members), err
}

// Committed returns the offset that a group has committed in partition 0, -1 if none.
func (j *Judge) Committed(ctx context.Context, group, topic string) int64 {
	j.t.Helper()
	offsets, err := j.ad.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		j.t.Fatalf("offsets of %s: %v", group, err)
	}
	if o, ok := offsets.Lookup(topic, 0); ok {
		return o.At
	}
	return -1
}

// Produce sends records and waits for them.
func (j *Judge) Produce(ctx context.Context, topic string, records []Record) {
	j.t.Helper()
	if err := j.cl.ProduceSync(ctx, kgoRecords(topic, records)...).FirstErr(); err != nil {
		j.t.Fatalf("produce to %s: %v", topic, err)
	}
}

func kgoRecords(topic string, records []Record) []*kgo.Record {
	var rs []*kgo.Record
	for _, r := range records {
		k := &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Time}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		rs = append(rs, k)
	}
	return rs
}

// Transact runs a transaction of records and ends it, or leaves it open.
func (j *Judge) Transact(ctx context.Context, id, topic string, records []Record, end kgo.TransactionEndTry) {
	j.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(j.address), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		j.t.Fatal(err)
	}
	defer cl.Close()
	err = cl.BeginTransaction()
	if err == nil {
		err = cl.ProduceSync(ctx, kgoRecords(topic, records)...).FirstErr()
	}
	if err == nil {
		err = cl.EndTransaction(ctx, end)
	}
	if err != nil {
		j.t.Fatalf("transaction %s: %v", id, err)
	}
}

// ReadAll returns everything that is in a topic, in the order of each partition.
func (j *Judge) ReadAll(ctx context.Context, topic string, committed bool) []Record {
	j.t.Helper()
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(j.address), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords(), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		j.t.Fatal(err)
	}
	defer cl.Close()
	left := map[int32]int64{}
	ends, err := j.ad.ListEndOffsets(ctx, topic)
	if committed {
		ends, err = j.ad.ListCommittedOffsets(ctx, topic)
	}
	if err != nil {
		j.t.Fatalf("ends of %s: %v", topic, err)
	}
	starts, err := j.ad.ListStartOffsets(ctx, topic)
	if err != nil {
		j.t.Fatalf("starts of %s: %v", topic, err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := starts.Lookup(topic, o.Partition); o.Offset > s.Offset {
			left[o.Partition] = o.Offset
		}
	})
	all, err := readUntil(ctx, cl, left)
	if err != nil {
		j.t.Fatalf("read %s: %v", topic, err)
	}
	return all
}

// readUntil polls until every partition has reached its end. A read of committed
// records is shown control records only, where a transaction was aborted: the
// marker behind it ends the partition.
func readUntil(ctx context.Context, cl *kgo.Client, left map[int32]int64) ([]Record, error) {
	var all []Record
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		for _, e := range fetches.Errors() {
			if !kerr.IsRetriable(e.Err) {
				return nil, e.Err
			}
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if end, ok := left[r.Partition]; ok && r.Offset+1 >= end {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				all = append(all, fromKgo(r))
			}
		})
	}
	return all, nil
}

func fromKgo(r *kgo.Record) Record {
	out := Record{Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Time: r.Timestamp}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, Header{h.Key, h.Value})
	}
	return out
}

// Codecs returns the codec of each batch in partition 0 of a topic, as stored.
// Batches of a few records are left out: libraries send them plain where
// compression does not make them smaller.
func (j *Judge) Codecs(ctx context.Context, topic string) []string {
	j.t.Helper()
	var codecs []string
	for offset, end := int64(0), j.End(ctx, topic); offset < end; {
		raw := j.fetch(ctx, topic, offset)
		if len(raw) == 0 {
			j.t.Fatalf("fetch %s at %d: nothing before the end %d", topic, offset, end)
		}
		for len(raw) > 0 {
			var b kmsg.RecordBatch
			if err := b.ReadFrom(raw); err != nil {
				break // cut off by the limit of the fetch
			}
			if b.NumRecords >= 10 {
				codecs = append(codecs, []string{"none", "gzip", "snappy", "lz4", "zstd", "?", "?", "?"}[b.Attributes&7])
			}
			offset = b.FirstOffset + int64(b.LastOffsetDelta) + 1
			raw = raw[12+b.Length:]
		}
	}
	return codecs
}

// fetch returns the batches of partition 0 as they come.
func (j *Judge) fetch(ctx context.Context, topic string, offset int64) []byte {
	j.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MaxBytes, req.SessionEpoch = 100, 64<<20, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes = offset, 64<<20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	meta, err := j.ad.ListTopics(ctx, topic)
	if err != nil {
		j.t.Fatal(err)
	}
	req.Topics[0].TopicID = meta[topic].ID
	resp, err := req.RequestWith(ctx, j.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		j.t.Fatalf("fetch %s at %d: %v", topic, offset, err)
	}
	return resp.Topics[0].Partitions[0].RecordBatches
}

// eventually asks again until f is satisfied or ctx ends, and returns the last
// complaint.
func eventually(ctx context.Context, f func() error) error {
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		err := f()
		if err == nil {
			tick.Stop()
			return nil
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

package kafka_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
)

// publish appends records to a partition, one batch each.
func publish(t *testing.T, tp *topic.Topic, partition int32, values ...string) {
	t.Helper()
	p, err := tp.Producer(&topic.ProducerOptions{Partitioner: topic.ByPartition()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, v := range values {
		if _, err := p.ProduceSync(t.Context(), topic.Record{Partition: partition, Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
}

// fetchOf asks for partitions 0, 1, … of a topic at the given offsets.
func fetchOf(name string, offsets ...int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 1, 1<<20
	req.SessionEpoch = -1
	in := kmsg.NewFetchRequestTopic()
	in.Topic = name
	for i, offset := range offsets {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(i), offset, 1<<20
		in.Partitions = append(in.Partitions, p)
	}
	req.Topics = append(req.Topics, in)
	return req
}

func fetched(resp *kmsg.FetchResponse) map[int32]kmsg.FetchResponseTopicPartition {
	out := map[int32]kmsg.FetchResponseTopicPartition{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out[p.Partition] = p
		}
	}
	return out
}

func TestFetchErrors(t *testing.T) {
	b := start(t, nil, nil)
	publish(t, b.topic(t, "t", 1), 0, "a", "b")
	c := b.raw(t)
	get := func(change func(*kmsg.FetchRequest), version int16) kmsg.FetchResponseTopicPartition {
		req := fetchOf("t", 0)
		change(req)
		return ask[*kmsg.FetchResponse](c, req, version).Topics[0].Partitions[0]
	}
	part := func(req *kmsg.FetchRequest) *kmsg.FetchRequestTopicPartition { return &req.Topics[0].Partitions[0] }
	for _, test := range []struct {
		name    string
		version int16
		change  func(*kmsg.FetchRequest)
		want    *kerr.Error
	}{
		{"beyond the end", 12, func(r *kmsg.FetchRequest) { part(r).FetchOffset = 3 }, kerr.OffsetOutOfRange},
		{"negative", 12, func(r *kmsg.FetchRequest) { part(r).FetchOffset = -5 }, kerr.OffsetOutOfRange},
		{"beyond the end, committed", 12, func(r *kmsg.FetchRequest) { part(r).FetchOffset, r.IsolationLevel = 3, 1 }, kerr.OffsetOutOfRange},
		{"unknown topic", 12, func(r *kmsg.FetchRequest) { r.Topics[0].Topic = "none" }, kerr.UnknownTopicOrPartition},
		{"unknown partition", 12, func(r *kmsg.FetchRequest) { part(r).Partition = 9 }, kerr.UnknownTopicOrPartition},
		{"unknown ID", 13, func(r *kmsg.FetchRequest) { r.Topics[0].TopicID = [16]byte{1} }, kerr.UnknownTopicID},
		{"future epoch", 12, func(r *kmsg.FetchRequest) { part(r).CurrentLeaderEpoch = 1 }, kerr.UnknownLeaderEpoch},
	} {
		if got := get(test.change, test.version); got.ErrorCode != test.want.Code {
			t.Errorf("%s: %v, want %v", test.name, kerr.ErrorForCode(got.ErrorCode), test.want)
		}
	}
	at := get(func(r *kmsg.FetchRequest) { part(r).FetchOffset = 2 }, 12)
	if at.ErrorCode != 0 || at.HighWatermark != 2 || at.LastStableOffset != 2 || len(at.RecordBatches) > 0 {
		t.Errorf("at the end: %+v", at)
	}
}

func TestFetchInEveryVersion(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 1)
	publish(t, tp, 0, "a", "b")
	c := b.raw(t)
	for v := int16(4); v <= 18; v++ {
		req := fetchOf("t", 0)
		if v >= 13 {
			req.Topics[0].Topic, req.Topics[0].TopicID = "", tp.ID()
		}
		got := ask[*kmsg.FetchResponse](c, req, v).Topics[0].Partitions[0]
		if got.ErrorCode != 0 || got.HighWatermark != 2 || len(got.RecordBatches) == 0 {
			t.Errorf("version %d: %+v", v, got)
		}
	}
}

// The first batch comes whatever the limits; after it the limits hold.
func TestFetchLimits(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 3)
	for p := range int32(3) {
		publish(t, tp, p, fmt.Sprintf("%01000d", p), "x")
	}
	req := fetchOf("t", 0, 0, 0)
	req.MaxBytes = 10
	got := fetched(ask[*kmsg.FetchResponse](b.raw(t), req, 12))
	if n := len(got[0].RecordBatches); n < 1000 || n > 1200 {
		t.Errorf("%d bytes of the first partition, want one batch", n)
	}
	for p := int32(1); p < 3; p++ {
		if len(got[p].RecordBatches) > 0 || got[p].HighWatermark != 2 {
			t.Errorf("partition %d: %d bytes, end %d", p, len(got[p].RecordBatches), got[p].HighWatermark)
		}
	}
}

func TestFetchSession(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 3)
	publish(t, tp, 0, "a")
	c := b.raw(t)
	req := fetchOf("t", 1, 0, 0)
	req.SessionEpoch = 0
	first := ask[*kmsg.FetchResponse](c, req, 12)
	if first.SessionID == 0 || len(fetched(first)) != 3 {
		t.Fatalf("a new session: %+v", first)
	}
	next := func(epoch int32, change func(*kmsg.FetchRequest)) *kmsg.FetchResponse {
		req := fetchOf("t")
		req.Topics, req.SessionID, req.SessionEpoch = nil, first.SessionID, epoch
		change(req)
		return ask[*kmsg.FetchResponse](c, req, 12)
	}
	same := func(*kmsg.FetchRequest) {}
	if got := next(1, same); len(got.Topics) != 0 || got.SessionID != first.SessionID {
		t.Errorf("nothing new: %+v", got)
	}
	publish(t, tp, 1, "b")
	if got := fetched(next(2, same)); len(got) != 1 || len(got[1].RecordBatches) == 0 {
		t.Errorf("one partition has grown: %+v", got)
	}
	forget := func(r *kmsg.FetchRequest) {
		r.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{1}}}
	}
	if got := next(3, forget); len(got.Topics) != 0 {
		t.Errorf("the partition is forgotten: %+v", got)
	}
	if got := next(3, same); got.ErrorCode != kerr.InvalidFetchSessionEpoch.Code {
		t.Errorf("an old epoch: %v", kerr.ErrorForCode(got.ErrorCode))
	}
	unknown := func(r *kmsg.FetchRequest) { r.SessionID++ }
	if got := next(4, unknown); got.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("an unknown session: %v", kerr.ErrorForCode(got.ErrorCode))
	}
}

// Answers come in the order of requests, also behind a fetch that waits. Such a fetch does not
// delay other connections.
func TestPipelining(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 1)
	c := b.raw(t)
	slow := fetchOf("t", 0)
	slow.MaxWaitMillis = 60_000
	want := []int32{c.send(slow, 12)}
	for range 5 {
		want = append(want, c.send(apiVersions(), 3))
	}
	if resp := ask[*kmsg.ApiVersionsResponse](b.raw(t), apiVersions(), 3); resp.ErrorCode != 0 {
		t.Error(resp)
	}
	publish(t, tp, 0, "a")
	for _, id := range want {
		if got, _ := c.receive(); got != id {
			t.Fatalf("answer to %d, want %d", got, id)
		}
	}
}

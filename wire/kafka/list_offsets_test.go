package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
)

func listOffsetsOf(name string, partition int32, timestamp int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, timestamp
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return req
}

func TestListOffsets(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 1)
	p, err := tp.Producer(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	now := time.Now().Truncate(time.Millisecond)
	for _, ms := range []int{0, 10, 30, 20} {
		if _, err := p.ProduceSync(t.Context(), topic.Record{Time: now.Add(time.Duration(ms) * time.Millisecond)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tp.DeleteRecords(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	c := b.raw(t)
	at := func(ms int) int64 { return now.UnixMilli() + int64(ms) }
	for _, test := range []struct {
		name          string
		ask           int64
		offset, stamp int64
	}{
		{"latest", -1, 4, -1}, {"earliest", -2, 1, -1}, {"newest by time", -3, 2, at(30)}, {"earliest local", -4, 1, -1}, {"tiered", -5, -1, -1}, {"to be tiered", -6, -1, -1},
		{"before all", at(-5), 1, at(10)}, {"between", at(11), 2, at(30)}, {"exact", at(30), 2, at(30)}, {"after all", at(31), -1, -1},
	} {
		for v := int16(1); v <= 11; v++ {
			got := ask[*kmsg.ListOffsetsResponse](c, listOffsetsOf("t", 0, test.ask), v).Topics[0].Partitions[0]
			if got.ErrorCode != 0 || got.Offset != test.offset || got.Timestamp != test.stamp {
				t.Errorf("%s, version %d: offset %d, timestamp %d, code %d; want %d, %d", test.name, v, got.Offset, got.Timestamp, got.ErrorCode, test.offset, test.stamp)
			}
		}
	}
	for _, test := range []struct {
		req  *kmsg.ListOffsetsRequest
		want *kerr.Error
	}{
		{listOffsetsOf("none", 0, -1), kerr.UnknownTopicOrPartition}, {listOffsetsOf("t", 7, -1), kerr.UnknownTopicOrPartition},
		{listOffsetsOf("t", 7, -2), kerr.UnknownTopicOrPartition}, {listOffsetsOf("t", 7, -6), kerr.UnknownTopicOrPartition}, {listOffsetsOf("t", 0, -7), kerr.InvalidRequest},
	} {
		if got := ask[*kmsg.ListOffsetsResponse](c, test.req, 7).Topics[0].Partitions[0]; got.ErrorCode != test.want.Code {
			t.Errorf("%+v: %v, want %v", test.req.Topics, kerr.ErrorForCode(got.ErrorCode), test.want)
		}
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 1)
	publish(t, tp, 0, "a", "b")
	c := b.raw(t)
	get := func(epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.LeaderEpoch = epoch
		req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
		return ask[*kmsg.OffsetForLeaderEpochResponse](c, req, 4).Topics[0].Partitions[0]
	}
	if got := get(0); got.ErrorCode != 0 || got.LeaderEpoch != 0 || got.EndOffset != 2 {
		t.Errorf("the only epoch: %+v", got)
	}
	if got := get(5); got.ErrorCode != 0 || got.LeaderEpoch != -1 || got.EndOffset != -1 {
		t.Errorf("an epoch that is not: %+v", got)
	}
}

func TestFindCoordinator(t *testing.T) {
	b := start(t, nil, nil)
	c := b.raw(t)
	for v := range int16(7) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = "g", []string{"g", "h"}
		resp := ask[*kmsg.FindCoordinatorResponse](c, req, v)
		if v < 4 {
			resp.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{{ErrorCode: resp.ErrorCode, Host: resp.Host, Port: resp.Port}}
		}
		for _, got := range resp.Coordinators {
			if got.ErrorCode != 0 || got.Host != "127.0.0.1" || got.Port != b.port(t) {
				t.Errorf("version %d: %+v", v, got)
			}
		}
	}
}

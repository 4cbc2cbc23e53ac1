package kafka_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

func metadataOf(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return req
}

func TestMetadataInEveryVersion(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 3)
	c := b.raw(t)
	for v := range int16(14) {
		resp := ask[*kmsg.MetadataResponse](c, metadataOf("t"), v)
		if len(resp.Brokers) != 1 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 3 || resp.Topics[0].ErrorCode != 0 {
			t.Fatalf("version %d: %+v", v, resp)
		}
		if resp.Brokers[0].NodeID != kafka.DefaultNodeID || v >= 1 && resp.ControllerID != kafka.DefaultNodeID {
			t.Errorf("version %d: broker %+v, controller %d", v, resp.Brokers[0], resp.ControllerID)
		}
		if p := resp.Topics[0].Partitions[2]; p.Partition != 2 || p.Leader != kafka.DefaultNodeID || len(p.Replicas) != 1 || len(p.ISR) != 1 {
			t.Errorf("version %d: partition %+v", v, p)
		}
		if v >= 10 && resp.Topics[0].TopicID != tp.ID() {
			t.Errorf("version %d: ID %x, want %x", v, resp.Topics[0].TopicID, tp.ID())
		}
	}
	byID := kmsg.NewPtrMetadataRequest()
	byID.Topics = []kmsg.MetadataRequestTopic{{TopicID: tp.ID()}, {TopicID: [16]byte{1}}}
	resp := ask[*kmsg.MetadataResponse](c, byID, 12)
	if *resp.Topics[0].Topic != "t" || resp.Topics[1].ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("by ID: %+v", resp.Topics)
	}
}

// No topics asked for means none, and null means all, but for version 0.
func TestMetadataOfNoneAndAll(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "a", 1)
	b.topic(t, "b", 1)
	c := b.raw(t)
	all := kmsg.NewPtrMetadataRequest()
	all.Topics = nil
	for _, test := range []struct {
		req     *kmsg.MetadataRequest
		version int16
		want    int
	}{{metadataOf(), 0, 2}, {metadataOf(), 1, 0}, {metadataOf(), 13, 0}, {all, 1, 2}, {all, 13, 2}} {
		if got := len(ask[*kmsg.MetadataResponse](c, test.req, test.version).Topics); got != test.want {
			t.Errorf("version %d, topics %v: %d, want %d", test.version, test.req.Topics, got, test.want)
		}
	}
}

func TestMetadataCreatesTopics(t *testing.T) {
	b := start(t, &kafka.Options{Partitions: 4}, nil)
	c := b.raw(t)
	req := metadataOf("new", "bad/name", strings.Repeat("x", 250))
	resp := ask[*kmsg.MetadataResponse](c, req, 12)
	if resp.Topics[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("created, though the client did not allow it: %+v", resp.Topics[0])
	}
	req.AllowAutoTopicCreation = true
	resp = ask[*kmsg.MetadataResponse](c, req, 12)
	if resp.Topics[0].ErrorCode != 0 || len(resp.Topics[0].Partitions) != 4 {
		t.Errorf("not created: %+v", resp.Topics[0])
	}
	for _, bad := range resp.Topics[1:] {
		if bad.ErrorCode != kerr.InvalidTopicException.Code {
			t.Errorf("%s: %v", *bad.Topic, kerr.ErrorForCode(bad.ErrorCode))
		}
	}

	closed := start(t, &kafka.Options{NoAutoCreate: true}, nil).raw(t)
	if got := ask[*kmsg.MetadataResponse](closed, req, 12).Topics[0]; got.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("created, though the server does not allow it: %+v", got)
	}
}

func TestAdvertise(t *testing.T) {
	for _, test := range []struct {
		advertise, host string
		port            int32 // 0: that listened on
	}{{"", "127.0.0.1", 0}, {"kafka.example:1234", "kafka.example", 1234}, {"kafka.example:0", "kafka.example", 0}, {"[::1]:77", "::1", 77}} {
		b := start(t, nil, &kafka.Listener{Advertise: test.advertise})
		got := ask[*kmsg.MetadataResponse](b.raw(t), metadataOf(), 9).Brokers[0]
		if test.port == 0 {
			test.port = b.port(t)
		}
		if got.Host != test.host || got.Port != test.port {
			t.Errorf("advertised %q: %s:%d, want %s:%d", test.advertise, got.Host, got.Port, test.host, test.port)
		}
	}
}

// The cluster keeps its ID when another server is started on its log.
func TestClusterIDStays(t *testing.T) {
	b := start(t, nil, nil)
	again := serve(t, b.log, nil, nil)
	first := ask[*kmsg.MetadataResponse](b.raw(t), metadataOf(), 9).ClusterID
	second := ask[*kmsg.MetadataResponse](again.raw(t), metadataOf(), 9).ClusterID
	if first == nil || *first == "" || *first != *second {
		t.Errorf("cluster IDs %v and %v", first, second)
	}
}

// unlisted is a log whose spaces cannot be listed while broken is set.
type unlisted struct {
	mainstem.Log
	broken atomic.Bool
}

func (l *unlisted) Spaces(ctx context.Context, prefix string) iter.Seq2[mainstem.SpaceInfo, error] {
	if !l.broken.Load() {
		return l.Log.Spaces(ctx, prefix)
	}
	return func(yield func(mainstem.SpaceInfo, error) bool) {
		yield(mainstem.SpaceInfo{}, mainstem.Errorf(mainstem.KindUnavailable, "spaces", "%w", errors.New("the disk is gone")))
	}
}

// A client that asks for all topics while they cannot be listed is disconnected: it must not
// take an empty list for an answer.
func TestMetadataOfAllIsAllOrNothing(t *testing.T) {
	log := &unlisted{Log: testengines.Memory(t)}
	b := serve(t, log, nil, nil)
	b.topic(t, "t", 1)
	all := kmsg.NewPtrMetadataRequest()
	all.Topics = nil
	for version := range int16(14) {
		log.broken.Store(true)
		c := b.raw(t)
		c.send(all, version)
		c.closed()
		if got := ask[*kmsg.MetadataResponse](b.raw(t), metadataOf("t"), version).Topics; len(got) != 1 || got[0].ErrorCode != 0 {
			t.Errorf("version %d: %+v", version, got)
		}
		log.broken.Store(false)
		if got := ask[*kmsg.MetadataResponse](b.raw(t), all, version).Topics; len(got) != 1 {
			t.Errorf("version %d: %+v", version, got)
		}
	}
}

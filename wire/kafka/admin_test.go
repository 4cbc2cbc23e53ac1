package kafka_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// fill appends records to a partition.
func fill(t *testing.T, tp *topic.Topic, partition int32, n int) {
	t.Helper()
	p, err := tp.Producer(&topic.ProducerOptions{Partitioner: topic.ByPartition()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := p.ProduceSync(t.Context(), topic.Record{Partition: partition, Key: []byte("k"), Value: []byte(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDeleteRecords(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 2)
	fill(t, tp, 1, 10)
	compacted, err := b.topics.Create(t.Context(), "c", topic.Spec{Config: topic.Config{topic.CleanupPolicy: "compact"}})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, compacted, 0, 1)
	c := b.raw(t)
	for i, tt := range []struct {
		name      string
		partition int32
		offset    int64
		want      *kerr.Error
		low       int64
	}{
		{"t", 1, 4, nil, 4},
		{"t", 1, 2, nil, 4}, // never backwards
		{"t", 1, 11, kerr.OffsetOutOfRange, -1},
		{"t", 1, -2, kerr.OffsetOutOfRange, -1},
		{"t", 2, 0, kerr.UnknownTopicOrPartition, -1},
		{"t", -1, 0, kerr.UnknownTopicOrPartition, -1},
		{"t", 1, -1, nil, 10},
		{"none", 0, 0, kerr.UnknownTopicOrPartition, -1},
		{"event.none", 0, 0, kerr.UnknownTopicOrPartition, -1},
		{"c", 0, 1, kerr.PolicyViolation, -1},
	} {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: tt.name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: tt.partition, Offset: tt.offset}}}}
		got := ask[*kmsg.DeleteRecordsResponse](c, req, int16(i%3)).Topics[0].Partitions[0]
		coded(t, got.ErrorCode, nil, tt.want)
		if got.LowWatermark != tt.low {
			t.Errorf("%+v: starts at %d", tt, got.LowWatermark)
		}
	}
	if start, err := tp.Start(t.Context(), 1); err != nil || start != 10 {
		t.Errorf("starts at %d, %v", start, err)
	}
}

func TestDescribeCluster(t *testing.T) {
	b := start(t, &kafka.Options{NodeID: 3}, &kafka.Listener{Advertise: "broker.example:1234"})
	c := b.raw(t)
	for v := range int16(3) {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.IncludeClusterAuthorizedOperations = true
		resp := ask[*kmsg.DescribeClusterResponse](c, req, v)
		if resp.ErrorCode != 0 || resp.ControllerID != 3 || resp.ClusterID == "" || len(resp.Brokers) != 1 || resp.ClusterAuthorizedOperations <= 0 {
			t.Fatalf("version %d: %+v", v, resp)
		}
		if br := resp.Brokers[0]; br.NodeID != 3 || br.Host != "broker.example" || br.Port != 1234 {
			t.Errorf("version %d: %+v", v, br)
		}
	}
	for kind, want := range map[int8]*kerr.Error{2: kerr.MismatchedEndpointType, 9: kerr.UnsupportedEndpointType} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = kind
		resp := ask[*kmsg.DescribeClusterResponse](c, req, 1)
		coded(t, resp.ErrorCode, resp.ErrorMessage, want)
	}
}

func TestDescribeLogDirs(t *testing.T) {
	b := start(t, nil, nil)
	fill(t, b.topic(t, "a", 2), 1, 5)
	fill(t, b.topic(t, "b", 1), 0, 1)
	c := b.raw(t)
	want, err := b.topics.Describe(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if want.Partitions[1].Bytes == 0 {
		t.Fatal("nothing to measure")
	}
	sizes := func(version int16, asked []kmsg.DescribeLogDirsRequestTopic) map[string]int64 {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Topics = asked
		resp := ask[*kmsg.DescribeLogDirsResponse](c, req, version)
		if len(resp.Dirs) != 1 || resp.Dirs[0].ErrorCode != 0 || resp.Dirs[0].Dir == "" {
			t.Fatalf("%+v", resp)
		}
		out := map[string]int64{}
		for _, tp := range resp.Dirs[0].Topics {
			for _, p := range tp.Partitions {
				out[fmt.Sprint(tp.Topic, p.Partition)] = p.Size
			}
		}
		return out
	}
	for v := int16(1); v <= 4; v++ {
		all := sizes(v, nil)
		if len(all) != 3 || all["a0"] != 0 || all["a1"] != want.Partitions[1].Bytes || all["b0"] == 0 {
			t.Errorf("version %d: %v", v, all)
		}
		some := sizes(v, []kmsg.DescribeLogDirsRequestTopic{{Topic: "a", Partitions: []int32{1, 9}}, {Topic: "none", Partitions: []int32{0}}})
		if diff := cmp.Diff(map[string]int64{"a1": all["a1"]}, some); diff != "" {
			t.Errorf("version %d: %s", v, diff)
		}
	}
}

func TestDescribeTopicPartitionsByPages(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "a", 3)
	b.topic(t, "b", 1)
	b.topic(t, "c", 4)
	c := b.raw(t)
	var got []string
	var cursor *kmsg.DescribeTopicPartitionsRequestCursor
	for pages := 0; ; pages++ {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit, req.Cursor = 2, cursor
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](c, req, 0)
		n := 0
		for _, tp := range resp.Topics {
			for _, p := range tp.Partitions {
				if p.LeaderID != kafka.DefaultNodeID || len(p.Replicas) != 1 || len(p.ISR) != 1 {
					t.Errorf("%+v", p)
				}
				got = append(got, fmt.Sprint(deref(tp.Topic), p.Partition))
				n++
			}
		}
		if n > 2 || pages > 10 {
			t.Fatalf("page %d has %d partitions", pages, n)
		}
		if resp.NextCursor == nil {
			break
		}
		cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
	}
	if diff := cmp.Diff([]string{"a0", "a1", "a2", "b0", "c0", "c1", "c2", "c3"}, got); diff != "" {
		t.Error(diff)
	}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "none"}, {Topic: "b"}, {Topic: "a b"}}
	resp := ask[*kmsg.DescribeTopicPartitionsResponse](c, req, 0)
	var codes []int16
	for _, tp := range resp.Topics {
		codes = append(codes, tp.ErrorCode)
	}
	if diff := cmp.Diff([]int16{kerr.InvalidTopicException.Code, 0, kerr.UnknownTopicOrPartition.Code}, codes); diff != "" {
		t.Error(diff) // in the order of names
	}
}

func TestElectLeaders(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "t", 1)
	c := b.raw(t)
	for v := range int16(3) {
		req := kmsg.NewPtrElectLeadersRequest()
		if resp := ask[*kmsg.ElectLeadersResponse](c, req, v); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
			t.Errorf("version %d: %+v", v, resp)
		}
		req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}, {Topic: "none", Partitions: []int32{0}}}
		resp := ask[*kmsg.ElectLeadersResponse](c, req, v)
		ps := append(resp.Topics[0].Partitions, resp.Topics[1].Partitions...)
		coded(t, ps[0].ErrorCode, ps[0].ErrorMessage, kerr.ElectionNotNeeded)
		coded(t, ps[1].ErrorCode, ps[1].ErrorMessage, kerr.UnknownTopicOrPartition)
		coded(t, ps[2].ErrorCode, ps[2].ErrorMessage, kerr.UnknownTopicOrPartition)
	}
}

func TestReassignments(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "t", 1)
	c := b.raw(t)
	for _, tt := range []struct {
		partition int32
		replicas  []int32
		want      *kerr.Error
	}{
		{0, []int32{kafka.DefaultNodeID}, nil},
		{0, []int32{2}, kerr.InvalidReplicaAssignment},
		{0, []int32{1, 2}, kerr.InvalidReplicaAssignment},
		{0, nil, kerr.NoReassignmentInProgress},
		{1, []int32{1}, kerr.UnknownTopicOrPartition},
	} {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: tt.partition, Replicas: tt.replicas}}}}
		for v := range int16(2) {
			got := ask[*kmsg.AlterPartitionAssignmentsResponse](c, req, v).Topics[0].Partitions[0]
			coded(t, got.ErrorCode, got.ErrorMessage, tt.want)
		}
	}
	if resp := ask[*kmsg.ListPartitionReassignmentsResponse](c, kmsg.NewPtrListPartitionReassignmentsRequest(), 0); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("%+v", resp)
	}
}

func TestUpdateFeatures(t *testing.T) {
	c := start(t, nil, nil).raw(t)
	for _, tt := range []struct {
		feature string
		level   int16
		want    *kerr.Error
	}{
		{"transaction.version", 2, nil},
		{"transaction.version", 3, kerr.InvalidUpdateVersion},
		{"transaction.version", 0, kerr.FeatureUpdateFailed},
		{"group.version", 1, nil},
		{"kraft.version", 1, kerr.InvalidUpdateVersion},
	} {
		for v := range int16(3) {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			one := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			one.Feature, one.MaxVersionLevel, one.UpgradeType = tt.feature, tt.level, 2
			req.FeatureUpdates = append(req.FeatureUpdates, one)
			resp := ask[*kmsg.UpdateFeaturesResponse](c, req, v)
			coded(t, resp.ErrorCode, resp.ErrorMessage, tt.want)
			if got := len(resp.Results); v < 2 && tt.want == nil && got != 1 {
				t.Errorf("version %d: %d results", v, got)
			}
		}
	}
}

// The topics that show event stores can be described, and nothing else.
func TestAdministratingEventTopics(t *testing.T) {
	b := start(t, nil, nil)
	store, err := event.Open(b.log, "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Append(t.Context(), "order-1", event.NoStream, []event.Event{{Type: "placed"}}); err != nil {
		t.Fatal(err)
	}
	c := b.raw(t)
	const name = "event.orders"
	shown := describe(c, 4, kmsg.ConfigResourceTypeTopic, name, topic.RetentionMs)
	coded(t, shown.ErrorCode, shown.ErrorMessage, nil)
	if len(shown.Configs) != 1 || !shown.Configs[0].ReadOnly || deref(shown.Configs[0].Value) != "-1" {
		t.Errorf("%+v", shown.Configs)
	}
	altered := alter(c, 1, false, kmsg.ConfigResourceTypeTopic, name, change{topic.RetentionMs, kmsg.IncrementalAlterConfigOpSet, "1"})
	coded(t, altered.ErrorCode, altered.ErrorMessage, kerr.InvalidTopicException, "events of a store")
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames = []string{name}
	deleted := ask[*kmsg.DeleteTopicsResponse](c, del, 5).Topics[0]
	coded(t, deleted.ErrorCode, deleted.ErrorMessage, kerr.InvalidTopicException)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 4}}
	grown := ask[*kmsg.CreatePartitionsResponse](c, grow, 3).Topics[0]
	coded(t, grown.ErrorCode, grown.ErrorMessage, kerr.InvalidTopicException)
}

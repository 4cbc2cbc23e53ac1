package kafka_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

func newTopic(name string, edit func(*kmsg.CreateTopicsRequestTopic)) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = name, -1, -1
	if edit != nil {
		edit(&one)
	}
	req.Topics = append(req.Topics, one)
	return req
}

// coded fails the test unless an entry of an answer has the code of want (nil: none)
// and, with a code, a message that contains all of mention.
func coded(t *testing.T, code int16, message *string, want *kerr.Error, mention ...string) {
	t.Helper()
	if want == nil {
		if code != 0 {
			t.Errorf("refused: %v %v", kerr.ErrorForCode(code), deref(message))
		}
		return
	}
	if code != want.Code {
		t.Errorf("got %v %s, want %v", kerr.ErrorForCode(code), deref(message), want)
	}
	for _, m := range mention {
		if !strings.Contains(deref(message), m) {
			t.Errorf("the message does not mention %q: %s", m, deref(message))
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestCreateTopicsInEveryVersion(t *testing.T) {
	b := start(t, &kafka.Options{Partitions: 3}, nil)
	c := b.raw(t)
	for v := int16(2); v <= 7; v++ {
		name := "t" + string('0'+rune(v))
		req := newTopic(name, func(one *kmsg.CreateTopicsRequestTopic) {
			one.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: topic.RetentionMs, Value: kmsg.StringPtr("5000")}}
		})
		got := ask[*kmsg.CreateTopicsResponse](c, req, v).Topics[0]
		coded(t, got.ErrorCode, got.ErrorMessage, nil)
		made, err := b.topics.Topic(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if made.Partitions() != 3 || made.Config().Get(topic.RetentionMs) != "5000" {
			t.Errorf("version %d: %d partitions, %v", v, made.Partitions(), made.Config())
		}
		if v >= 5 && (got.NumPartitions != 3 || got.ReplicationFactor != 1 || configOf(got.Configs, topic.RetentionMs) != "5000 1") {
			t.Errorf("version %d: answered %+v", v, got)
		}
		if v >= 7 && topic.ID(got.TopicID) != made.ID() {
			t.Errorf("version %d: answered the ID %s, want %s", v, topic.ID(got.TopicID), made.ID())
		}
		again := ask[*kmsg.CreateTopicsResponse](c, req, v).Topics[0]
		coded(t, again.ErrorCode, again.ErrorMessage, kerr.TopicAlreadyExists, name)
	}
}

func configOf(cs []kmsg.CreateTopicsResponseTopicConfig, name string) string {
	for _, c := range cs {
		if c.Name == name {
			return deref(c.Value) + " " + string('0'+rune(c.Source))
		}
	}
	return ""
}

func TestCreateTopicsRefuses(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "a.b", 1)
	assigned := func(as ...kmsg.CreateTopicsRequestTopicReplicaAssignment) func(*kmsg.CreateTopicsRequestTopic) {
		return func(one *kmsg.CreateTopicsRequestTopic) { one.ReplicaAssignment = as }
	}
	configured := func(name string, value *string) func(*kmsg.CreateTopicsRequestTopic) {
		return func(one *kmsg.CreateTopicsRequestTopic) {
			one.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: name, Value: value}}
		}
	}
	at := func(partition int32, replicas ...int32) kmsg.CreateTopicsRequestTopicReplicaAssignment {
		return kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: partition, Replicas: replicas}
	}
	partitions := func(n int32) func(*kmsg.CreateTopicsRequestTopic) {
		return func(one *kmsg.CreateTopicsRequestTopic) { one.NumPartitions = n }
	}
	for _, tt := range []struct {
		name    string
		edit    func(*kmsg.CreateTopicsRequestTopic)
		want    *kerr.Error
		mention []string
	}{
		{"", nil, kerr.InvalidTopicException, nil},
		{"..", nil, kerr.InvalidTopicException, nil},
		{"a b", nil, kerr.InvalidTopicException, nil},
		{strings.Repeat("x", 250), nil, kerr.InvalidTopicException, []string{"249"}},
		{"a_b", nil, kerr.InvalidTopicException, []string{"a_b", "a.b"}},
		{"event.orders", nil, kerr.InvalidTopicException, []string{"event."}},
		{"a.b", nil, kerr.TopicAlreadyExists, nil},
		{"p", partitions(0), kerr.InvalidPartitions, nil},
		{"p", partitions(-2), kerr.InvalidPartitions, nil},
		{"p", partitions(topic.MaxPartitions + 1), kerr.InvalidPartitions, nil},
		{"r", func(one *kmsg.CreateTopicsRequestTopic) { one.ReplicationFactor = 3 }, kerr.InvalidReplicationFactor, []string{"one broker"}},
		{"r", func(one *kmsg.CreateTopicsRequestTopic) { one.ReplicationFactor = 0 }, kerr.InvalidReplicationFactor, nil},
		{"c", configured("no.such.config", kmsg.StringPtr("1")), kerr.InvalidConfig, []string{"no.such.config"}},
		{"c", configured(topic.RetentionMs, kmsg.StringPtr("soon")), kerr.InvalidConfig, []string{topic.RetentionMs, "soon"}},
		{"c", configured(topic.RetentionMs, nil), kerr.InvalidConfig, []string{topic.RetentionMs}},
		{"c", configured(topic.MaxMessageBytes, kmsg.StringPtr("2000000000")), kerr.InvalidConfig, []string{topic.MaxMessageBytes}},
		{"m", assigned(at(0, 7)), kerr.InvalidReplicaAssignment, []string{"7"}},
		{"m", assigned(at(0, 1, 2)), kerr.InvalidReplicaAssignment, nil},
		{"m", assigned(at(1, 1)), kerr.InvalidReplicaAssignment, nil},
		{"m", assigned(at(0, 1), at(0, 1)), kerr.InvalidReplicaAssignment, nil},
		{"m", func(one *kmsg.CreateTopicsRequestTopic) {
			assigned(at(0, 1))(one)
			one.NumPartitions = 1
		}, kerr.InvalidRequest, nil},
	} {
		got := ask[*kmsg.CreateTopicsResponse](b.raw(t), newTopic(tt.name, tt.edit), 5).Topics[0]
		t.Logf("%.20s: %v", tt.name, deref(got.ErrorMessage))
		coded(t, got.ErrorCode, got.ErrorMessage, tt.want, tt.mention...)
	}
	if _, err := b.topics.Topic(t.Context(), "p"); err == nil {
		t.Error("what was refused was created")
	}
	double := newTopic("x", nil)
	double.Topics = append(double.Topics, double.Topics[0], newTopic("y", nil).Topics[0])
	resp := ask[*kmsg.CreateTopicsResponse](b.raw(t), double, 7)
	if len(resp.Topics) != 2 {
		t.Fatalf("%d answers for 2 names", len(resp.Topics))
	}
	coded(t, resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage, kerr.InvalidRequest, "more than once")
	coded(t, resp.Topics[1].ErrorCode, resp.Topics[1].ErrorMessage, nil)
}

func TestCreateTopicsByAssignment(t *testing.T) {
	b := start(t, nil, nil)
	req := newTopic("m", func(one *kmsg.CreateTopicsRequestTopic) {
		for _, p := range []int32{2, 0, 1} {
			one.ReplicaAssignment = append(one.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: p, Replicas: []int32{kafka.DefaultNodeID}})
		}
	})
	got := ask[*kmsg.CreateTopicsResponse](b.raw(t), req, 7).Topics[0]
	coded(t, got.ErrorCode, got.ErrorMessage, nil)
	if got.NumPartitions != 3 {
		t.Errorf("%d partitions", got.NumPartitions)
	}
}

func TestCreateTopicsOnlyValidates(t *testing.T) {
	b := start(t, nil, nil)
	req := newTopic("v", nil)
	req.ValidateOnly = true
	got := ask[*kmsg.CreateTopicsResponse](b.raw(t), req, 7).Topics[0]
	coded(t, got.ErrorCode, got.ErrorMessage, nil)
	if got.NumPartitions != 1 || topic.ID(got.TopicID) != (topic.ID{}) {
		t.Errorf("answered %+v", got)
	}
	if _, err := b.topics.Topic(t.Context(), "v"); err == nil {
		t.Error("it was created")
	}
	req.Topics[0].ReplicationFactor = 2
	got = ask[*kmsg.CreateTopicsResponse](b.raw(t), req, 7).Topics[0]
	coded(t, got.ErrorCode, got.ErrorMessage, kerr.InvalidReplicationFactor)
}

// A request that only validates is refused with the same code as the real one.
func TestValidateOnlyChecksTheLimitOfTheLog(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "t", 1)
	c := b.raw(t)
	beyond := kmsg.StringPtr(strconv.Itoa(mainstem.DefaultMaxValue + 1))
	for _, only := range []bool{true, false} {
		create := newTopic("new", func(one *kmsg.CreateTopicsRequestTopic) {
			one.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: topic.MaxMessageBytes, Value: beyond}}
		})
		create.ValidateOnly = only
		created := ask[*kmsg.CreateTopicsResponse](c, create, 7).Topics[0]
		coded(t, created.ErrorCode, created.ErrorMessage, kerr.InvalidConfig, *beyond)
		replace := kmsg.NewPtrAlterConfigsRequest()
		one := kmsg.NewAlterConfigsRequestResource()
		one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
		one.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: topic.MaxMessageBytes, Value: beyond}}
		replace.Resources, replace.ValidateOnly = append(replace.Resources, one), only
		replaced := ask[*kmsg.AlterConfigsResponse](c, replace, 2).Resources[0]
		coded(t, replaced.ErrorCode, replaced.ErrorMessage, kerr.InvalidConfig, *beyond)
		altered := alter(c, 1, only, kmsg.ConfigResourceTypeTopic, "t", change{topic.MaxMessageBytes, kmsg.IncrementalAlterConfigOpSet, *beyond})
		coded(t, altered.ErrorCode, altered.ErrorMessage, kerr.InvalidConfig, *beyond)
	}
}

func TestCreatePartitions(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 2)
	c := b.raw(t)
	grow := func(name string, count int32, only bool, as ...[]int32) (int16, *string) {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.ValidateOnly = only
		one := kmsg.NewCreatePartitionsRequestTopic()
		one.Topic, one.Count = name, count
		for _, a := range as {
			one.Assignment = append(one.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: a})
		}
		req.Topics = append(req.Topics, one)
		got := ask[*kmsg.CreatePartitionsResponse](c, req, 3).Topics[0]
		return got.ErrorCode, got.ErrorMessage
	}
	for _, tt := range []struct {
		name  string
		count int32
		only  bool
		as    [][]int32
		want  *kerr.Error
		after int32
	}{
		{"none", 3, false, nil, kerr.UnknownTopicOrPartition, 2},
		{"t", 2, false, nil, kerr.InvalidPartitions, 2},
		{"t", 1, false, nil, kerr.InvalidPartitions, 2},
		{"t", topic.MaxPartitions + 1, false, nil, kerr.InvalidPartitions, 2},
		{"t", 3, true, nil, nil, 2},
		{"t", 4, false, [][]int32{{1}}, kerr.InvalidReplicaAssignment, 2},
		{"t", 3, false, [][]int32{{9}}, kerr.InvalidReplicaAssignment, 2},
		{"t", 4, false, [][]int32{{1}, {1}}, nil, 4},
		{"t", 5, false, nil, nil, 5},
	} {
		code, message := grow(tt.name, tt.count, tt.only, tt.as...)
		coded(t, code, message, tt.want)
		if got := tp.Partitions(); got != tt.after {
			t.Errorf("after %+v there are %d partitions", tt, got)
		}
	}
}

func TestDeleteTopics(t *testing.T) {
	b := start(t, nil, nil)
	c := b.raw(t)
	for v := int16(1); v <= 5; v++ {
		b.topic(t, "t", 1)
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TopicNames = []string{"t", "none"}
		resp := ask[*kmsg.DeleteTopicsResponse](c, req, v)
		coded(t, resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage, nil)
		coded(t, resp.Topics[1].ErrorCode, resp.Topics[1].ErrorMessage, kerr.UnknownTopicOrPartition)
		if _, err := b.topics.Topic(t.Context(), "t"); err == nil {
			t.Fatal("it is still there")
		}
	}
	byID, byName := b.topic(t, "byid", 1), b.topic(t, "byname", 1)
	both := b.topic(t, "both", 1)
	req := kmsg.NewPtrDeleteTopicsRequest()
	add := func(name *string, id topic.ID) {
		req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: name, TopicID: id})
	}
	add(nil, byID.ID())
	add(kmsg.StringPtr(byName.Name()), topic.ID{})
	add(nil, topic.ID{1, 2, 3})
	add(nil, topic.ID{})
	add(kmsg.StringPtr(both.Name()), both.ID())
	add(kmsg.StringPtr("twice"), topic.ID{})
	add(kmsg.StringPtr("twice"), topic.ID{})
	var codes []int16
	resp := ask[*kmsg.DeleteTopicsResponse](c, req, 6)
	for _, one := range resp.Topics {
		codes = append(codes, one.ErrorCode)
	}
	want := []int16{0, 0, kerr.UnknownTopicID.Code, kerr.InvalidRequest.Code, kerr.InvalidRequest.Code, kerr.InvalidRequest.Code}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Error(diff)
	}
	if deref(resp.Topics[0].Topic) != "byid" || topic.ID(resp.Topics[1].TopicID) != byName.ID() {
		t.Errorf("answered %+v", resp.Topics[:2])
	}
	for _, gone := range []string{"byid", "byname"} {
		if _, err := b.topics.Topic(t.Context(), gone); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
	if _, err := b.topics.Topic(t.Context(), "both"); err != nil {
		t.Error("what was refused was deleted")
	}
}

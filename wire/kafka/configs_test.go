package kafka_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

func describe(c *raw, version int16, kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName, one.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, one)
	resp := ask[*kmsg.DescribeConfigsResponse](c, req, version)
	if len(resp.Resources) != 1 {
		c.t.Fatalf("%d answers", len(resp.Resources))
	}
	return resp.Resources[0]
}

func TestDescribeTopicConfigs(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "t", 1)
	if err := b.topics.SetConfig(t.Context(), "t", topic.RetentionMs, "5000"); err != nil {
		t.Fatal(err)
	}
	c := b.raw(t)
	for v := int16(1); v <= 4; v++ {
		all := describe(c, v, kmsg.ConfigResourceTypeTopic, "t")
		shown := slices.DeleteFunc(topic.ConfigKeys(), func(k topic.ConfigKey) bool { return k.Internal })
		if len(all.Configs) != len(shown) {
			t.Errorf("version %d: %d configurations, want %d", v, len(all.Configs), len(shown))
		}
		some := describe(c, v, kmsg.ConfigResourceTypeTopic, "t", topic.RetentionMs, topic.MaxMessageBytes, "none").Configs
		if len(some) != 2 {
			t.Fatalf("version %d: %d configurations, want 2", v, len(some))
		}
		def, set := some[0], some[1]
		if def.Name != topic.MaxMessageBytes || deref(def.Value) != "1048588" || def.Source != kmsg.ConfigSourceDefaultConfig || def.ReadOnly {
			t.Errorf("version %d: %+v", v, def)
		}
		if set.Name != topic.RetentionMs || deref(set.Value) != "5000" || set.Source != kmsg.ConfigSourceDynamicTopicConfig {
			t.Errorf("version %d: %+v", v, set)
		}
		var synonyms []string
		for _, s := range set.ConfigSynonyms {
			synonyms = append(synonyms, s.Name+"="+deref(s.Value)+" "+s.Source.String())
		}
		want := []string{"retention.ms=5000 DYNAMIC_TOPIC_CONFIG", "log.retention.ms=604800000 DEFAULT_CONFIG"}
		if diff := cmp.Diff(want, synonyms); diff != "" {
			t.Errorf("version %d: %s", v, diff)
		}
		if v >= 3 && (set.ConfigType != kmsg.ConfigTypeLong || deref(set.Documentation) == "") {
			t.Errorf("version %d: type %v, documentation %q", v, set.ConfigType, deref(set.Documentation))
		}
	}
	got := describe(c, 4, kmsg.ConfigResourceTypeTopic, "none")
	coded(t, got.ErrorCode, got.ErrorMessage, kerr.UnknownTopicOrPartition, "none")
	got = describe(c, 4, kmsg.ConfigResourceTypeTopic, "a b")
	coded(t, got.ErrorCode, got.ErrorMessage, kerr.InvalidTopicException)
	got = describe(c, 4, kmsg.ConfigResourceTypeClientMetrics, "g")
	coded(t, got.ErrorCode, got.ErrorMessage, kerr.InvalidRequest)
}

// An internal configuration of Kafka can be set, and is shown from then on.
func TestInternalTopicConfigs(t *testing.T) {
	const name = "internal.segment.bytes"
	b := start(t, nil, nil)
	b.topic(t, "t", 1)
	c := b.raw(t)
	if got := describe(c, 4, kmsg.ConfigResourceTypeTopic, "t", name).Configs; len(got) != 0 {
		t.Errorf("shown before it is set: %+v", got)
	}
	altered := alter(c, 1, false, kmsg.ConfigResourceTypeTopic, "t", change{name, kmsg.IncrementalAlterConfigOpSet, "1000"})
	coded(t, altered.ErrorCode, altered.ErrorMessage, nil)
	got := describe(c, 4, kmsg.ConfigResourceTypeTopic, "t", name).Configs
	if len(got) != 1 || deref(got[0].Value) != "1000" || got[0].Source != kmsg.ConfigSourceDynamicTopicConfig {
		t.Errorf("%+v", got)
	}
}

func TestDescribeBrokerConfigs(t *testing.T) {
	c := start(t, &kafka.Options{NoAutoCreate: true, NodeID: 5}, nil).raw(t)
	got := describe(c, 4, kmsg.ConfigResourceTypeBroker, "5")
	coded(t, got.ErrorCode, got.ErrorMessage, nil)
	shown := map[string]string{}
	for _, one := range got.Configs {
		shown[one.Name] = deref(one.Value) + " " + one.Source.String()
		if !one.ReadOnly {
			t.Errorf("%s is not read-only", one.Name)
		}
	}
	for name, want := range map[string]string{
		"node.id":                   "5 STATIC_BROKER_CONFIG",
		"auto.create.topics.enable": "false STATIC_BROKER_CONFIG",
		"num.partitions":            "1 DEFAULT_CONFIG",
		"log.retention.ms":          "604800000 DEFAULT_CONFIG",
		"message.max.bytes":         "1048588 DEFAULT_CONFIG",
		"min.insync.replicas":       "1 DEFAULT_CONFIG",
		"remote.storage.enable":     "", // of topics only
		"":                          "",
	} {
		if shown[name] != want {
			t.Errorf("%s is %q, want %q", name, shown[name], want)
		}
	}
	got = describe(c, 4, kmsg.ConfigResourceTypeBroker, "6")
	coded(t, got.ErrorCode, got.ErrorMessage, kerr.InvalidRequest, "5")
	if got = describe(c, 4, kmsg.ConfigResourceTypeBroker, ""); got.ErrorCode != 0 || len(got.Configs) != 0 {
		t.Errorf("the default of all brokers: %+v", got)
	}
}

type change struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value string
}

func alter(c *raw, version int16, only bool, kind kmsg.ConfigResourceType, name string, changes ...change) kmsg.IncrementalAlterConfigsResponseResource {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = only
	one := kmsg.NewIncrementalAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = kind, name
	for _, ch := range changes {
		to := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		to.Name, to.Op, to.Value = ch.name, ch.op, kmsg.StringPtr(ch.value)
		if ch.value == "null" || ch.op == kmsg.IncrementalAlterConfigOpDelete {
			to.Value = nil
		}
		one.Configs = append(one.Configs, to)
	}
	req.Resources = append(req.Resources, one)
	return ask[*kmsg.IncrementalAlterConfigsResponse](c, req, version).Resources[0]
}

func TestIncrementalAlterConfigs(t *testing.T) {
	const set, del, add, sub = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 1)
	c := b.raw(t)
	for _, tt := range []struct {
		changes []change
		want    *kerr.Error
		mention string
		after   topic.Config
	}{
		{[]change{{topic.RetentionMs, set, "5000"}, {"segment.bytes", set, "1000000"}}, nil, "", topic.Config{topic.RetentionMs: "5000", "segment.bytes": "1000000"}},
		{[]change{{"segment.bytes", del, ""}}, nil, "", topic.Config{topic.RetentionMs: "5000"}},
		{[]change{{topic.CleanupPolicy, add, "compact"}}, nil, "", topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "delete,compact"}},
		{[]change{{topic.CleanupPolicy, add, "compact"}}, nil, "", topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "delete,compact"}},
		{[]change{{topic.CleanupPolicy, sub, "delete"}}, nil, "", topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "compact"}},
		{[]change{{topic.CleanupPolicy, sub, "compact"}}, kerr.InvalidConfig, topic.CleanupPolicy, topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "compact"}},
		{[]change{{topic.RetentionMs, set, "6000"}, {"no.such", set, "1"}}, kerr.InvalidConfig, "no.such", topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "compact"}},
		{[]change{{"no.such", add, "1"}}, kerr.InvalidConfig, "no.such", topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "compact"}},
		{[]change{{"no.such", del, ""}}, nil, "", topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "compact"}},
		{[]change{{"segment.bytes", del, ""}}, nil, "", topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "compact"}},
		{[]change{{topic.RetentionMs, set, "soon"}}, kerr.InvalidConfig, "soon", topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "compact"}},
		{[]change{{topic.RetentionMs, set, "null"}}, kerr.InvalidConfig, topic.RetentionMs, topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "compact"}},
		{[]change{{topic.RetentionMs, add, "1"}}, kerr.InvalidConfig, topic.RetentionMs, topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "compact"}},
		{[]change{{topic.RetentionMs, 9, "1"}}, kerr.InvalidRequest, topic.RetentionMs, topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "compact"}},
		{[]change{{topic.RetentionMs, set, "1"}, {topic.RetentionMs, del, ""}}, kerr.InvalidRequest, topic.RetentionMs, topic.Config{topic.RetentionMs: "5000", topic.CleanupPolicy: "compact"}},
	} {
		for _, version := range []int16{0, 1} {
			if tt.want == nil {
				before := tp.Config()
				got := alter(c, version, true, kmsg.ConfigResourceTypeTopic, "t", tt.changes...)
				coded(t, got.ErrorCode, got.ErrorMessage, nil)
				if diff := cmp.Diff(before, tp.Config()); diff != "" {
					t.Errorf("validating %v changed: %s", tt.changes, diff)
				}
			}
			got := alter(c, version, false, kmsg.ConfigResourceTypeTopic, "t", tt.changes...)
			coded(t, got.ErrorCode, got.ErrorMessage, tt.want, tt.mention)
			if diff := cmp.Diff(tt.after, tp.Config()); diff != "" {
				t.Errorf("after %v: %s", tt.changes, diff)
			}
		}
	}
	got := alter(c, 1, false, kmsg.ConfigResourceTypeTopic, "none", change{topic.RetentionMs, set, "1"})
	coded(t, got.ErrorCode, got.ErrorMessage, kerr.UnknownTopicOrPartition)
	for _, id := range []string{"", "1"} {
		got = alter(c, 1, false, kmsg.ConfigResourceTypeBroker, id, change{"num.partitions", set, "1"})
		coded(t, got.ErrorCode, got.ErrorMessage, kerr.InvalidConfig)
	}
	got = alter(c, 1, false, kmsg.ConfigResourceTypeBroker, "7", change{"num.partitions", set, "1"})
	coded(t, got.ErrorCode, got.ErrorMessage, kerr.InvalidRequest)
	got = alter(c, 1, false, kmsg.ConfigResourceTypeBrokerLogger, "1", change{"x", set, "1"})
	coded(t, got.ErrorCode, got.ErrorMessage, kerr.InvalidRequest)
}

// MirrorMaker copies a topic with a request that sets every configuration of the source that is
// not the default, and deletes all others.
func TestMirroredTopicConfigs(t *testing.T) {
	b := start(t, nil, nil)
	c := b.raw(t)
	want := map[string]string{
		"compression.type": "zstd", "compression.zstd.level": "6", "min.insync.replicas": "2", "remote.storage.enable": "true",
		"local.retention.ms": "3600000", "leader.replication.throttled.replicas": "0:1,1:2", "follower.replication.throttled.replicas": "*",
		"message.format.version": "3.0-IV1", "message.downconversion.enable": "false", "unclean.leader.election.enable": "true",
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = "source.t", 2, -1
	for name, value := range want {
		one.Configs = append(one.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
	}
	req.Topics = append(req.Topics, one)
	created := ask[*kmsg.CreateTopicsResponse](c, req, 7).Topics[0]
	coded(t, created.ErrorCode, created.ErrorMessage, nil)

	var changes []change
	for _, k := range topic.ConfigKeys() {
		if v, ok := want[k.Name]; ok {
			changes = append(changes, change{k.Name, kmsg.IncrementalAlterConfigOpSet, v})
		} else {
			changes = append(changes, change{k.Name, kmsg.IncrementalAlterConfigOpDelete, ""})
		}
	}
	altered := alter(c, 1, false, kmsg.ConfigResourceTypeTopic, "source.t", changes...)
	coded(t, altered.ErrorCode, altered.ErrorMessage, nil)

	got := map[string]string{}
	for _, one := range describe(c, 4, kmsg.ConfigResourceTypeTopic, "source.t").Configs {
		if one.Source == kmsg.ConfigSourceDynamicTopicConfig {
			got[one.Name] = deref(one.Value)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the topic shows other configurations than were asked for: %s", diff)
	}
}

func TestAlterConfigsReplacesAll(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 1)
	if err := b.topics.SetConfig(t.Context(), "t", topic.RetentionMs, "5000"); err != nil {
		t.Fatal(err)
	}
	c := b.raw(t)
	req := kmsg.NewPtrAlterConfigsRequest()
	one := kmsg.NewAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	one.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: topic.RetentionBytes, Value: kmsg.StringPtr("100")}}
	req.Resources = append(req.Resources, one)
	req.ValidateOnly = true
	got := ask[*kmsg.AlterConfigsResponse](c, req, 0).Resources[0]
	coded(t, got.ErrorCode, got.ErrorMessage, nil)
	if diff := cmp.Diff(topic.Config{topic.RetentionMs: "5000"}, tp.Config()); diff != "" {
		t.Error(diff)
	}
	req.ValidateOnly = false
	for v := range int16(3) {
		got = ask[*kmsg.AlterConfigsResponse](c, req, v).Resources[0]
		coded(t, got.ErrorCode, got.ErrorMessage, nil)
		if diff := cmp.Diff(topic.Config{topic.RetentionBytes: "100"}, tp.Config()); diff != "" {
			t.Error(diff)
		}
	}
	req.Resources[0].Configs[0].Name = "no.such"
	got = ask[*kmsg.AlterConfigsResponse](c, req, 2).Resources[0]
	coded(t, got.ErrorCode, got.ErrorMessage, kerr.InvalidConfig, "no.such")
	req.Resources = append(req.Resources, req.Resources[0])
	if resp := ask[*kmsg.AlterConfigsResponse](c, req, 2); len(resp.Resources) != 1 || resp.Resources[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("named twice: %+v", resp.Resources)
	}
	if diff := cmp.Diff(topic.Config{topic.RetentionBytes: "100"}, tp.Config()); diff != "" {
		t.Error(diff)
	}
}

func TestListConfigResources(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "a", 1)
	b.topic(t, "b", 1)
	c := b.raw(t)
	for _, name := range []string{"h", "gg"} {
		got := alter(c, 1, false, kmsg.ConfigResourceTypeGroupConfig, name, change{groupSession, kmsg.IncrementalAlterConfigOpSet, "50000"})
		coded(t, got.ErrorCode, got.ErrorMessage, nil)
	}
	list := func(version int16, kinds ...kmsg.ConfigResourceType) ([]string, int16) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		for _, k := range kinds {
			req.ResourceTypes = append(req.ResourceTypes, int8(k))
		}
		resp := ask[*kmsg.ListConfigResourcesResponse](c, req, version)
		var out []string
		for _, r := range resp.ConfigResources {
			out = append(out, kmsg.ConfigResourceType(r.Type).String()+" "+r.Name)
		}
		return out, resp.ErrorCode
	}
	for _, tt := range []struct {
		version int16
		kinds   []kmsg.ConfigResourceType
		want    []string
		code    int16
	}{
		{0, nil, nil, 0},
		{1, nil, []string{"TOPIC a", "TOPIC b", "BROKER 1", "GROUP_CONFIG gg", "GROUP_CONFIG h"}, 0},
		{1, []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeGroupConfig}, []string{"GROUP_CONFIG gg", "GROUP_CONFIG h"}, 0},
		{1, []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeBroker}, []string{"BROKER 1"}, 0},
		{1, []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeClientMetrics}, nil, 0},
		{1, []kmsg.ConfigResourceType{77}, nil, kerr.UnsupportedVersion.Code},
	} {
		got, code := list(tt.version, tt.kinds...)
		if diff := cmp.Diff(tt.want, got); diff != "" || code != tt.code {
			t.Errorf("%+v: code %d, %s", tt, code, diff)
		}
	}
}

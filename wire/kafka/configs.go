package kafka

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/group"
)

// configEntry is one configuration of a topic, a group or the broker, as DescribeConfigs and
// CreateTopics show it.
type configEntry struct {
	name, value string // the value in force
	started     string // the value from the server's options; "" if they have the default
	fallback    string // Kafka's default
	kind        kmsg.ConfigType
	source      kmsg.ConfigSource // of value
	readOnly    bool
	doc         string
	synonym     string // the broker configuration that is the default of this one; "": name
}

// brokerNames are Kafka's names of the broker configurations that are the defaults of topic
// configurations, unless the name is that of the topic configuration after "log.". "" means
// that the broker has none.
var brokerNames = map[string]string{
	topic.MaxMessageBytes:            "message.max.bytes",
	topic.CompressionType:            "compression.type",
	topic.MinInsyncReplicas:          "min.insync.replicas",
	topic.CleanupPolicy:              "log.cleanup.policy",
	topic.MinDirtyRatio:              "log.cleaner.min.cleanable.ratio",
	topic.MinCompactionLag:           "log.cleaner.min.compaction.lag.ms",
	topic.MaxCompactionLag:           "log.cleaner.max.compaction.lag.ms",
	topic.DeleteRetention:            "log.cleaner.delete.retention.ms",
	"file.delete.delay.ms":           "log.segment.delete.delay.ms",
	"flush.messages":                 "log.flush.interval.messages",
	"flush.ms":                       "log.flush.interval.ms",
	"segment.ms":                     "log.roll.ms",
	"segment.jitter.ms":              "log.roll.jitter.ms",
	"segment.index.bytes":            "log.index.size.max.bytes",
	"unclean.leader.election.enable": "unclean.leader.election.enable",
	"compression.gzip.level":         "compression.gzip.level",
	"compression.lz4.level":          "compression.lz4.level",
	"compression.zstd.level":         "compression.zstd.level",

	"leader.replication.throttled.replicas":   "",
	"follower.replication.throttled.replicas": "",
	"internal.segment.bytes":                  "",
	"remote.storage.enable":                   "",
	"remote.log.copy.disable":                 "",
	"remote.log.delete.on.disable":            "",
}

// brokerName returns the name of the broker configuration that is the default of a topic
// configuration, "" if there is none.
func brokerName(topicName string) string {
	if name, ok := brokerNames[topicName]; ok {
		return name
	}
	return "log." + topicName
}

// topicEntries returns the configurations of a topic, of which cfg has those that are set, in
// the order of their names. An internal configuration is left out unless it is set.
func topicEntries(cfg topic.Config, readOnly bool) []configEntry {
	keys := topic.ConfigKeys()
	out := make([]configEntry, 0, len(keys))
	for _, k := range keys {
		if _, set := cfg[k.Name]; k.Internal && !set {
			continue
		}
		e := configEntry{
			name: k.Name, value: k.Default, fallback: k.Default, kind: k.Type, source: kmsg.ConfigSourceDefaultConfig,
			readOnly: readOnly, doc: k.Doc, synonym: brokerName(k.Name),
		}
		if v, ok := cfg[k.Name]; ok {
			e.value, e.source = v, kmsg.ConfigSourceDynamicTopicConfig
		}
		out = append(out, e)
	}
	return out
}

// eventEntries returns the configurations of a topic that shows an event store or a table of
// alerts: retention without limits, because the server removes nothing there.
func eventEntries() []configEntry {
	return topicEntries(topic.Config{topic.RetentionMs: "-1", topic.RetentionBytes: "-1"}, true)
}

// brokerEntries returns the configurations of this broker: its options under Kafka's names,
// and the defaults of topics, in the order of their names. All are read-only.
func (s *Server) brokerEntries() []configEntry {
	number := func(name string, v int64, def int64, kind kmsg.ConfigType, doc string) configEntry {
		return static(name, strconv.FormatInt(v, 10), strconv.FormatInt(def, 10), kind, doc)
	}
	o := &s.o
	out := []configEntry{
		number("node.id", int64(o.NodeID), DefaultNodeID, kmsg.ConfigTypeInt, "the ID under which the server names itself"),
		number("broker.id", int64(o.NodeID), DefaultNodeID, kmsg.ConfigTypeInt, "the older name of node.id"),
		static("auto.create.topics.enable", strconv.FormatBool(!o.NoAutoCreate), "true", kmsg.ConfigTypeBoolean, "whether a topic is created because a client asks for it"),
		number("num.partitions", int64(o.Partitions), DefaultPartitions, kmsg.ConfigTypeInt, "partitions of a topic whose creator does not say"),
		number("default.replication.factor", 1, 1, kmsg.ConfigTypeInt, "always 1: there is one broker"),
		number("offsets.topic.replication.factor", 1, 1, kmsg.ConfigTypeShort, "always 1: there is one broker"),
		number("transaction.state.log.replication.factor", 1, 1, kmsg.ConfigTypeShort, "always 1: there is one broker"),
		static("delete.topic.enable", "true", "true", kmsg.ConfigTypeBoolean, "topics can be deleted"),
		number("socket.request.max.bytes", int64(o.MaxRequest), DefaultMaxRequest, kmsg.ConfigTypeInt, "largest request in bytes"),
		number("queued.max.request.bytes", int64(o.MaxInFlight), DefaultMaxInFlight, kmsg.ConfigTypeLong, "bytes of all requests that are being read or served"),
		number("max.connections", int64(o.MaxConnections), DefaultMaxConnections, kmsg.ConfigTypeInt, "connections that are served"),
		number("fetch.max.bytes", int64(o.MaxFetch), DefaultMaxFetch, kmsg.ConfigTypeInt, "bytes of record batches in an answer"),
		number("connections.max.idle.ms", o.IdleTimeout.Milliseconds(), DefaultIdleTimeout.Milliseconds(), kmsg.ConfigTypeLong, "milliseconds that a connection may be without a request"),
		number("offsets.retention.minutes", int64(math.Ceil(o.OffsetRetention.Minutes())), int64(DefaultOffsetRetention.Minutes()), kmsg.ConfigTypeInt, "minutes that the offsets of an empty group are kept"),
		number("group.consumer.min.session.timeout.ms", min(group.MinGroupSession, o.GroupSession).Milliseconds(), group.MinGroupSession.Milliseconds(), kmsg.ConfigTypeInt, "least consumer.session.timeout.ms of a group"),
		number("group.consumer.max.session.timeout.ms", max(group.MaxGroupSession, o.GroupSession).Milliseconds(), group.MaxGroupSession.Milliseconds(), kmsg.ConfigTypeInt, "greatest consumer.session.timeout.ms of a group"),
		number("group.consumer.min.heartbeat.interval.ms", min(group.MinGroupHeartbeat, o.GroupHeartbeat).Milliseconds(), group.MinGroupHeartbeat.Milliseconds(), kmsg.ConfigTypeInt, "least consumer.heartbeat.interval.ms of a group"),
		number("group.consumer.max.heartbeat.interval.ms", max(group.MaxGroupHeartbeat, o.GroupHeartbeat).Milliseconds(), group.MaxGroupHeartbeat.Milliseconds(), kmsg.ConfigTypeInt, "greatest consumer.heartbeat.interval.ms of a group"),
		number("group.consumer.session.timeout.ms", o.GroupSession.Milliseconds(), DefaultGroupSession.Milliseconds(), kmsg.ConfigTypeInt, "milliseconds of silence after which a member of a consumer group is removed"),
		number("group.consumer.heartbeat.interval.ms", o.GroupHeartbeat.Milliseconds(), DefaultGroupHeartbeat.Milliseconds(), kmsg.ConfigTypeInt, "milliseconds between two reports of a member of a consumer group"),
	}
	for _, k := range topic.ConfigKeys() {
		if name := brokerName(k.Name); name != "" {
			out = append(out, static(name, k.Default, k.Default, k.Type, k.Doc))
		}
	}
	slices.SortFunc(out, func(a, b configEntry) int { return strings.Compare(a.name, b.name) })
	return out
}

// static returns a read-only configuration with a value from the options. def is Kafka's
// default.
func static(name, value, def string, kind kmsg.ConfigType, doc string) configEntry {
	e := configEntry{name: name, value: value, fallback: def, kind: kind, source: kmsg.ConfigSourceDefaultConfig, readOnly: true, doc: doc}
	if value != def {
		e.started, e.source = value, kmsg.ConfigSourceStaticBrokerConfig
	}
	return e
}

// synonyms returns all configurations that can give the value, the one in force first
// (KIP-226).
func (e *configEntry) synonyms() []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	var out []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
	add := func(name, value string, source kmsg.ConfigSource) {
		one := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		one.Name, one.Value, one.Source = name, &value, source
		out = append(out, one)
	}
	name := cmp.Or(e.synonym, e.name)
	if e.source != kmsg.ConfigSourceDefaultConfig && e.source != kmsg.ConfigSourceStaticBrokerConfig {
		add(e.name, e.value, e.source)
	}
	if e.started != "" {
		add(name, e.started, kmsg.ConfigSourceStaticBrokerConfig)
	}
	add(name, e.fallback, kmsg.ConfigSourceDefaultConfig)
	return out
}

// isBroker returns a refusal unless the name of a resource of type BROKER is the ID of this
// broker, or "" for the configurations of all brokers.
func (s *Server) isBroker(name string) error {
	if id := strconv.Itoa(int(s.o.NodeID)); name != "" && name != id {
		return refuse(kerr.InvalidRequest, "broker %q: the only broker is %s", name, id)
	}
	return nil
}

// configRefusal returns err, or a refusal with INVALID_CONFIG if err is Invalid.
func configRefusal(err error) error {
	if mainstem.KindOf(err) == mainstem.KindInvalid {
		return refuse(kerr.InvalidConfig, "%v", err)
	}
	return err
}

// unchangeable returns the refusal of a change of anything but topics and groups.
func unchangeable(kind kmsg.ConfigResourceType) error {
	if kind == kmsg.ConfigResourceTypeBroker {
		return refuse(kerr.InvalidConfig, "the configurations of the broker are given when it is started and cannot be changed")
	}
	return unconfigured(kind)
}

// unconfigured returns the refusal for a kind of resource that has no configurations.
func unconfigured(kind kmsg.ConfigResourceType) error {
	return refuse(kerr.InvalidRequest, "resources of kind %v have no configurations here: only topics, groups and brokers have", kind)
}

// resourceName returns kind and name of a resource, for messages.
func resourceName(kind kmsg.ConfigResourceType, name string) string {
	return fmt.Sprintf("%v %q", kind, name)
}

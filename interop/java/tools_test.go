package java_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/interop/java"
	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

// tool is one run of a command line tool, with what has to come of it.
type tool struct {
	run   string   // the class below org.apache.kafka.tools, and its arguments
	class string   // the class, if it is elsewhere
	input string   // standard input
	want  []string // patterns that the output matches
	fails bool     // the status is not 0
}

// tools are run in this order against what prepare made. BROKER is put in where the
// address belongs.
var tools = []tool{
	{run: "TopicCommand --bootstrap-server BROKER --list", want: []string{`(?m)^things$`}},
	{run: "TopicCommand --bootstrap-server BROKER --describe", want: []string{
		`Topic: things\s+TopicId: \S{22}\s+PartitionCount: 2\s+ReplicationFactor: 1`, `Partition: 1\s+Leader: 1\s+Replicas: 1\s+Isr: 1`}},
	{run: "TopicCommand --bootstrap-server BROKER --describe --topic things", want: []string{`Topic: things`}},
	{run: "TopicCommand --bootstrap-server BROKER --describe --under-replicated-partitions", want: []string{nothing}},
	{run: "TopicCommand --bootstrap-server BROKER --describe --unavailable-partitions", want: []string{nothing}},
	{run: "TopicCommand --bootstrap-server BROKER --create --topic tooled --partitions 2 --config retention.ms=90000", want: []string{`Created topic tooled`}},
	{run: "TopicCommand --bootstrap-server BROKER --describe --topics-with-overrides", want: []string{`Topic: tooled.*retention.ms=90000`}},
	{run: "TopicCommand --bootstrap-server BROKER --alter --topic tooled --partitions 4"},
	{run: "TopicCommand --bootstrap-server BROKER --describe --topic tooled", want: []string{`PartitionCount: 4`}},

	{class: configs, run: "--bootstrap-server BROKER --describe --entity-type topics --entity-name tooled", want: []string{`retention.ms=90000`}},
	{class: configs, run: "--bootstrap-server BROKER --describe --entity-type topics --entity-name tooled --all", want: []string{`cleanup.policy=delete`}},
	{class: configs, run: "--bootstrap-server BROKER --alter --entity-type topics --entity-name tooled --add-config retention.ms=80000", want: []string{`Completed updating config for topic tooled`}},
	{class: configs, run: "--bootstrap-server BROKER --alter --entity-type topics --entity-name tooled --delete-config retention.ms", want: []string{`Completed updating config for topic tooled`}},
	{class: configs, run: "--bootstrap-server BROKER --describe --entity-type brokers --entity-name 1 --all", want: []string{`node.id=1`}},
	{class: configs, run: "--bootstrap-server BROKER --describe --entity-type brokers --entity-default", want: []string{`Default configs for brokers`}},

	{class: configs, run: "--bootstrap-server BROKER --describe --entity-type groups", want: []string{`Dynamic configs for group readers are:`}},
	{class: configs, run: "--bootstrap-server BROKER --alter --entity-type groups --entity-name planned --add-config consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000", want: []string{`Completed updating config for group planned`}},
	{class: configs, run: "--bootstrap-server BROKER --alter --entity-type groups --entity-name planned --delete-config consumer.heartbeat.interval.ms", want: []string{`Completed updating config for group planned`}},
	{class: configs, run: "--bootstrap-server BROKER --describe --entity-type groups", want: []string{`Dynamic configs for group readers are:`, `(?s)Dynamic configs for group planned are:\s+consumer.session.timeout.ms=50000`}},
	{class: configs, run: "--bootstrap-server BROKER --describe --entity-type groups --entity-name planned --all", want: []string{
		`consumer.session.timeout.ms=50000 sensitive=false synonyms=\{DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000, DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000\}`, `consumer.heartbeat.interval.ms=5000 `}},
	{class: configs, run: "--bootstrap-server BROKER --alter --entity-type groups --entity-name planned --add-config consumer.session.timeout.ms=1000", want: []string{`want 45000 to 60000`}, fails: true},

	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --list", want: []string{`readers`}},
	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --list --state", want: []string{`readers\s+\S*\s*Stable`}},
	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --describe --group readers", want: []string{`readers\s+things\s+0\s+10\s+20\s+10`, `first`}},
	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --describe --group readers --members --verbose", want: []string{`readers\s+first-\S+\s+first\s+/127.0.0.1\s+\S+\s+2\s.*things:0,1`}},
	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --describe --group readers --state --verbose", want: []string{`readers.*range\s+Stable`}},
	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --describe --all-groups", want: []string{`readers\s+things`}},
	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --describe --all-groups --members", want: []string{`readers\s`}},
	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --describe --all-groups --state", want: []string{`Stable`}},
	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --reset-offsets --group other --topic things:0 --to-earliest --execute", want: []string{`other\s+things\s+0\s+0`}},
	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --reset-offsets --group other --topic things:0 --shift-by 2 --execute", want: []string{`other\s+things\s+0\s+2`}},
	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --delete-offsets --group other --topic things:0", want: []string{`Successful`}},
	{run: "consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --delete --group readers", want: []string{`(?s)not empty|NON_EMPTY|GroupNotEmpty`}},
	{run: "GroupsCommand --bootstrap-server BROKER --list", want: []string{`readers\s+Classic\s+consumer`}},

	{run: "LogDirsCommand --bootstrap-server BROKER --describe --topic-list things", want: []string{`"partition":"things-0"`}},
	{run: "GetOffsetShell --bootstrap-server BROKER --topic things", want: []string{`things:0:20`, `things:1:0`}},
	{run: "GetOffsetShell --bootstrap-server BROKER --topic things --time earliest", want: []string{`things:0:0`}},
	{run: "GetOffsetShell --bootstrap-server BROKER --topic things --time max-timestamp", want: []string{`things:0:9`}},
	{run: "TransactionsCommand --bootstrap-server BROKER list", want: []string{`open\s+1\s+\d+\s+Ongoing`}},
	{run: "TransactionsCommand --bootstrap-server BROKER describe --transactional-id open", want: []string{`Ongoing.*things-0`}},
	{run: "TransactionsCommand --bootstrap-server BROKER describe-producers --topic things --partition 0", want: []string{`(?m)^\d+\s+\d+`}},
	{run: "TransactionsCommand --bootstrap-server BROKER find-hanging --broker-id 1", want: []string{`(?m)^Topic\s+Partition`}},
	{run: "BrokerApiVersionsCommand --bootstrap-server BROKER", want: []string{`id: 1 rack: null`, `Produce\(0\): 0 to 1\d`}},
	{run: "FeatureCommand --bootstrap-server BROKER describe", want: []string{`group.version.*FinalizedVersionLevel: 1`, `transaction.version.*FinalizedVersionLevel: 2`}},
	{run: "ClusterTool cluster-id --bootstrap-server BROKER", want: []string{`Cluster ID: \S+`}},
	{run: "ClusterTool list-endpoints --bootstrap-server BROKER", want: []string{`127.0.0.1`}},
	{run: "reassign.ReassignPartitionsCommand --bootstrap-server BROKER --list", want: []string{`No partition reassignments found`}},
	{run: "LeaderElectionCommand --bootstrap-server BROKER --election-type preferred --topic things --partition 0", want: []string{`things-0`}},
	{run: "ConsoleProducer --bootstrap-server BROKER --topic tooled", input: "one\ntwo\nthree\n"},
	{run: "consumer.ConsoleConsumer --bootstrap-server BROKER --topic tooled --from-beginning --max-messages 3", want: []string{`one`, `two`, `three`}},
	{run: "ProducerPerformance --topic tooled --num-records 1000 --record-size 100 --throughput -1 --producer-props bootstrap.servers=BROKER", want: []string{`1000 records sent`}},
	{run: "ConsumerPerformance --bootstrap-server BROKER --topic tooled --messages 1000", want: []string{`, 100\d, `}},
	{run: "TopicCommand --bootstrap-server BROKER --delete --topic tooled"},

	// What one broker of this kind does not have: the tools say so instead of hanging.
	{run: "MetadataQuorumCommand --bootstrap-server BROKER describe --status", want: []string{unsupported}, fails: true},
	{run: "DelegationTokenCommand --bootstrap-server BROKER --describe --command-config EMPTY", want: []string{unsupported}, fails: true},
	{run: "AclCommand --bootstrap-server BROKER --list", want: []string{`SecurityDisabled`}, fails: true},
	{run: "consumer.group.ShareGroupCommand --bootstrap-server BROKER --list", want: []string{nothing}},
	{run: "consumer.group.ShareGroupCommand --bootstrap-server BROKER --describe --all-groups", want: []string{nothing}},
	{run: "streams.StreamsGroupCommand --bootstrap-server BROKER --list", want: []string{nothing}},
	{run: "ClientMetricsCommand --bootstrap-server BROKER --list", want: []string{nothing}},
	{class: configs, run: "--bootstrap-server BROKER --describe --entity-type users", want: []string{nothing}},
	{class: configs, run: "--bootstrap-server BROKER --describe --entity-type clients", want: []string{nothing}},
	{class: configs, run: "--bootstrap-server BROKER --describe --entity-type ips", want: []string{nothing}},
	{class: configs, run: "--bootstrap-server BROKER --describe --entity-type client-metrics"},
}

const (
	configs     = "kafka.admin.ConfigCommand"
	nothing     = `^\s*$`
	unsupported = `(?i)unsupported|not support`
)

// TestTools runs the command line tools of Kafka 4.1 with what operators ask most.
func TestTools(t *testing.T) {
	needed(t)
	t.Parallel()
	broker := target.Mainstem(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := clients[java.Kafka41]
	prepare(ctx, t, c.Library(), broker.Kafka)
	agent, err := c.Agent(ctx)
	must(t, err)
	opened, err := java.OpenTools(ctx, agent)
	must(t, err)
	empty := properties(t, t.TempDir(), "empty.properties")
	for _, k := range tools {
		words := strings.Fields(strings.NewReplacer("BROKER", broker.Kafka, "EMPTY", empty).Replace(k.run))
		class, args := k.class, words
		if class == "" {
			class, args = "org.apache.kafka.tools."+words[0], words[1:]
		}
		status, output, err := opened.Run(ctx, class, k.input, args...)
		if err != nil {
			t.Errorf("%s %s: %v", class, k.run, err)
			continue
		}
		if (status != 0) != k.fails {
			t.Errorf("%s %s: status %d:\n%s", class, k.run, status, output)
		}
		for _, pattern := range k.want {
			if !regexp.MustCompile(pattern).MatchString(output) {
				t.Errorf("%s %s: the output does not match %s:\n%s", class, k.run, pattern, output)
			}
		}
	}
	must(t, opened.Close())
}

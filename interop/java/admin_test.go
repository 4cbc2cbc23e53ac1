package java_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstemdev/mainstem/interop/java"
	"github.com/mainstemdev/mainstem/interop/kafka"
	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

// patience bounds what is waited for on a slow machine. It begins when the server runs: to
// build that takes minutes where nothing is cached.
const patience = 2 * time.Minute

// check is one call of Admin with what has to come of it.
type check struct {
	call string
	args map[string]any
	want string // JSON, with _ for what differs from run to run; "" means nothing
	fail string // the error says so
	only string // the version of clients, if not each
}

// topicID stands in checks for the ID of the topic.
const topicID = "the id"

// checks are made in this order against a topic "things" with two partitions, of which
// the first has 20 records, the last ones of an open transaction "open", and a group
// "readers" that has read and committed all that is committed.
var checks = []check{
	{call: "describeCluster", want: `{"nodes":[1],"controller":1,"id":"_"}`},
	{call: "describeFeatures", want: `{"group.version":1,"transaction.version":2}`},
	{call: "createTopics", args: args{"topic": "made", "partitions": 3, "configs": args{"retention.ms": "1000000"}},
		want: `{"partitions":3,"replicationFactor":1,"id":"_","configs":"_"}`},
	{call: "createTopics", args: args{"topic": "made", "partitions": 3}, fail: "TopicExistsException"},
	{call: "createTopics", args: args{"topic": "wrong", "partitions": 0}, fail: "InvalidPartitionsException"},
	{call: "describeTopics", args: args{"topic": "things"}, want: things},
	{call: "describeTopics", args: args{"id": topicID}, want: things},
	{call: "describeTopics", args: args{"topic": "nothing"}, fail: "UnknownTopicOrPartitionException"},
	{call: "createPartitions", args: args{"topic": "made", "total": 4}},
	{call: "createPartitions", args: args{"topic": "made", "total": 2}, fail: "InvalidPartitionsException"},
	{call: "incrementalAlterConfigs", args: args{"type": "TOPIC", "name": "made", "op": "SET", "key": "retention.ms", "value": "5000"}},
	{call: "incrementalAlterConfigs", args: args{"type": "TOPIC", "name": "made", "op": "APPEND", "key": "cleanup.policy", "value": "compact"}},
	{call: "incrementalAlterConfigs", args: args{"type": "TOPIC", "name": "made", "op": "SUBTRACT", "key": "cleanup.policy", "value": "delete"}},
	{call: "incrementalAlterConfigs", args: args{"type": "TOPIC", "name": "made", "op": "DELETE", "key": "retention.ms"}},
	{call: "incrementalAlterConfigs", args: args{"type": "TOPIC", "name": "made", "op": "DELETE", "key": "retention.ms"}},
	{call: "incrementalAlterConfigs", args: args{"type": "TOPIC", "name": "made", "op": "SET", "key": "no.such", "value": "1"}, fail: "InvalidConfigurationException"},
	{call: "deleteTopics", args: args{"topic": "made"}},
	{call: "deleteTopics", args: args{"topic": "made"}, fail: "UnknownTopicOrPartitionException"},

	{call: "listOffsets", args: args{"topic": "things", "at": "earliest"}, want: `{"offset":0,"time":-1}`},
	{call: "listOffsets", args: args{"topic": "things", "at": "latest"}, want: `{"offset":20,"time":-1}`},
	{call: "listOffsets", args: args{"topic": "things", "at": "max"}, want: `{"offset":9,"time":1600000009000}`},
	{call: "listOffsets", args: args{"topic": "things", "at": 1600000004500}, want: `{"offset":5,"time":1600000005000}`},
	{call: "listOffsets", args: args{"topic": "things", "at": 1700000000000}, want: `{"offset":-1,"time":-1}`},
	{call: "deleteRecords", args: args{"topic": "things", "before": 3}, want: `3`},
	{call: "deleteRecords", args: args{"topic": "things", "before": 300}, fail: "OffsetOutOfRangeException"},
	{call: "listOffsets", args: args{"topic": "things", "at": "earliest"}, want: `{"offset":3,"time":-1}`},
	{call: "electLeaders", args: args{"topic": "things"}, want: `"ElectionNotNeededException"`},
	{call: "listPartitionReassignments", want: `0`},
	{call: "describeLogDirs", want: `{"things-0":"_","things-1":0}`},
	{call: "describeReplicaLogDirs", args: args{"topic": "things"}, want: `true`},
	{call: "describeMetadataQuorum", fail: "UnsupportedVersionException"},

	{call: "listConsumerGroups", want: `["readers"]`},
	{call: "describeConsumerGroups", args: args{"group": "readers"},
		want: `{"state":"Stable","simple":false,"assignor":"range","coordinator":1,"members":[{"client":"_","instance":"first","partitions":["things-0","things-1"]}]}`},
	{call: "listConsumerGroupOffsets", args: args{"group": "readers"}, want: `{"things-0":10,"things-1":0}`},
	{call: "alterConsumerGroupOffsets", args: args{"group": "readers", "topic": "things", "offset": 4}, fail: "UnknownMemberIdException"},
	{call: "deleteConsumerGroups", args: args{"group": "readers"}, fail: "GroupNotEmptyException"},
	{call: "deleteConsumerGroupOffsets", args: args{"group": "readers", "topic": "things"}, fail: "GroupSubscribedToTopicException"},
	{call: "removeMembersFromConsumerGroup", args: args{"group": "readers", "instance": "first"}},
	{call: "describeConsumerGroups", args: args{"group": "readers"}, want: `{"state":"Empty","simple":false,"assignor":"","coordinator":1,"members":[]}`},
	{call: "alterConsumerGroupOffsets", args: args{"group": "readers", "topic": "things", "offset": 4}},
	{call: "listConsumerGroupOffsets", args: args{"group": "readers"}, want: `{"things-0":4,"things-1":0}`},
	{call: "deleteConsumerGroupOffsets", args: args{"group": "readers", "topic": "things"}},
	{call: "listConsumerGroupOffsets", args: args{"group": "readers"}, want: `{"things-1":0}`},
	{call: "deleteConsumerGroups", args: args{"group": "readers"}},
	{call: "deleteConsumerGroups", args: args{"group": "readers"}, fail: "GroupIdNotFoundException"},

	{call: "listTransactions", want: `["open"]`},
	{call: "describeTransactions", args: args{"id": "open"}, want: `{"state":"Ongoing","partitions":["things-0"]}`},
	{call: "describeTransactions", args: args{"id": "none"}, fail: "TransactionalIdNotFoundException"},
	{call: "describeProducers", args: args{"topic": "things"}, want: `[{"sequence":9,"start":10}]`},
	// Clients before 3.8 take the broker's answer that it is still at work for a failure (KAFKA-16570).
	{call: "fenceProducers", args: args{"id": "open"}, only: java.Kafka41},
	{call: "describeTransactions", args: args{"id": "open"}, want: `{"state":"_","partitions":[]}`, only: java.Kafka41},

	{call: "alterUserScramCredentials", args: args{"user": "eve", "password": "secret"}},
	{call: "describeUserScramCredentials", want: `{"eve":["SCRAM-SHA-256"]}`},
	{call: "alterUserScramCredentials", args: args{"user": "eve"}},
	{call: "describeClientQuotas", want: `0`},
	{call: "alterClientQuotas", args: args{"user": "eve"}, fail: "InvalidRequestException"},
	{call: "describeAcls", fail: "SecurityDisabledException"},
	{call: "createAcls", args: args{"user": "eve"}, fail: "SecurityDisabledException"},
	{call: "deleteAcls", fail: "SecurityDisabledException"},
	{call: "describeDelegationToken", fail: "UnsupportedVersionException"},
	{call: "deleteTopics", args: args{"id": topicID}},
	{call: "listTopics", want: `[]`},
}

const things = `{"name":"things","id":"_","internal":false,"partitions":[` +
	`{"partition":0,"leader":1,"replicas":[1],"isr":[1]},{"partition":1,"leader":1,"replicas":[1],"isr":[1]}]}`

type args = map[string]any

// TestAdmin makes every call of Admin that means something to one broker, and some
// that have to be refused.
func TestAdmin(t *testing.T) {
	needed(t)
	for version, c := range clients {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			broker := target.Mainstem(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			prepare(ctx, t, c.Library(), broker.Kafka)
			agent, err := c.Agent(ctx)
			must(t, err)
			admin, err := java.OpenAdmin(ctx, agent, broker.Kafka)
			must(t, err)
			var found struct {
				ID string `json:"id"`
			}
			must(t, admin.Call(ctx, "describeTopics", args{"topic": "things"}, &found))
			for _, k := range checks {
				if k.only != "" && k.only != version {
					continue
				}
				if k.args["id"] == topicID {
					k.args = args{"id": found.ID}
				}
				var got any
				err := admin.Call(ctx, k.call, k.args, &got)
				if problem := k.judge(got, err); problem != "" {
					t.Errorf("%s %v: %s", k.call, k.args, problem)
				}
			}
			if err := admin.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// judge says what is wrong with the result of a call.
func (k check) judge(got any, err error) string {
	if k.fail != "" {
		if err == nil || !strings.Contains(err.Error(), k.fail) {
			return fmt.Sprintf("result %v and error %v, want %s", got, err, k.fail)
		}
		return ""
	}
	if err != nil {
		return err.Error()
	}
	var want any
	if k.want != "" {
		if err := json.Unmarshal([]byte(k.want), &want); err != nil {
			return fmt.Sprintf("the check: %v", err)
		}
	}
	return cmp.Diff(want, got, cmp.FilterValues(func(a, b any) bool { return a == "_" || b == "_" }, cmp.Ignore()))
}

// prepare makes what the checks say is there. The transaction and the member stay open
// until the test ends.
func prepare(ctx context.Context, t *testing.T, l kafka.Library, address string) {
	t.Helper()
	cl := l.New(kafka.Endpoint{Address: address})
	admin, err := cl.Admin(ctx)
	must(t, err)
	must(t, admin.CreateTopic(ctx, "things", 2, map[string]string{"retention.ms": "-1"})) // its records are of 2017 and 2020
	must(t, admin.Close())

	p, err := cl.Producer(ctx, kafka.ProducerOptions{Topic: "things", Acks: kafka.AcksAll, Codec: "none"})
	must(t, err)
	must(t, p.Send(ctx, timed(time.Unix(1_600_000_000, 0))))
	must(t, p.Close())
	open, err := cl.Producer(ctx, kafka.ProducerOptions{Topic: "things", Acks: kafka.AcksAll, Codec: "none", Idempotent: true, TransactionalID: "open"})
	must(t, err)
	must(t, open.Begin())
	must(t, open.Send(ctx, timed(time.Unix(1_500_000_000, 0))))
	t.Cleanup(func() { _ = open.Close() }) // it was fenced

	c, err := cl.Consumer(ctx, kafka.ConsumerOptions{Topic: "things", Group: "readers", InstanceID: "first", ReadCommitted: true})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // it was removed
	for n := 0; n < 10; {
		got, err := c.Poll(ctx)
		must(t, err)
		n += len(got)
	}
	must(t, c.Commit(ctx))
}

// timed returns ten records, a second apart.
func timed(first time.Time) []kafka.Record {
	records := make([]kafka.Record, 10)
	for i := range records {
		records[i] = kafka.Record{Value: fmt.Append(nil, i), Time: first.Add(time.Duration(i) * time.Second)}
	}
	return records
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

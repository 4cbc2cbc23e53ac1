package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/wire/kafka/kafkaserver"
)

// startKafkaNode starts a server with a Kafka listener on the log in dir.
func startKafkaNode(t *testing.T, dir string) (*server.Server, *kafkaserver.Component) {
	t.Helper()
	k := kafkaserver.New()
	c := servertest.Config(k)
	c.Log, k.Config.Listen = dir, "127.0.0.1:0"
	return servertest.Start(t, c), k
}

// kafkaTime is how long one operation of a Kafka client may take: a bound for what hangs.
const kafkaTime = time.Minute

// kafkaClient is a Kafka client in a test.
type kafkaClient struct{ *kgo.Client }

func dialKafka(address string, more ...kgo.Opt) (kafkaClient, error) {
	cl, err := kgo.NewClient(append(more, kgo.SeedBrokers(address), kgo.RequestRetries(2), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	return kafkaClient{cl}, err
}

// create creates a topic.
func (k kafkaClient) create(ctx context.Context, name string, partitions int32) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = name, partitions, -1
	req.Topics = append(req.Topics, one)
	resp, err := req.RequestWith(ctx, k)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

// list returns a line "name partitions" for each topic, by name.
func (k kafkaClient) list(ctx context.Context) ([]string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	resp, err := req.RequestWith(ctx, k)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range resp.Topics {
		out = append(out, fmt.Sprintf("%s %d", *t.Topic, len(t.Partitions)))
	}
	slices.Sort(out)
	return out, nil
}

// produce writes values to one partition of a topic.
func (k kafkaClient) produce(ctx context.Context, name string, partition int32, values ...string) error {
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: name, Partition: partition, Value: []byte(v)})
	}
	return k.ProduceSync(ctx, records...).FirstErr()
}

// consume returns the first records that it is given, and commits them in its group if it
// is in one.
func (k kafkaClient) consume(ctx context.Context, most int) ([]*kgo.Record, error) {
	var out []*kgo.Record
	for len(out) < most {
		fetches := k.PollRecords(ctx, most-len(out))
		if err := fetches.Err(); err != nil {
			return out, err
		}
		out = append(out, fetches.Records()...)
	}
	if group, _ := k.GroupMetadata(); group != "" {
		return out, k.CommitRecords(ctx, out...)
	}
	return out, nil
}

// consuming are the options of a consumer of one topic, alone if group is "".
func consuming(name, group string) []kgo.Opt {
	o := []kgo.Opt{kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if group != "" {
		o = append(o, kgo.ConsumerGroup(group), kgo.DisableAutoCommit())
	}
	return o
}

const kafkaUsage = `usage: kafka [user=NAME:MECHANISM:PASSWORD] ADDRESS list
       kafka ... ADDRESS create TOPIC PARTITIONS
       kafka ... ADDRESS produce TOPIC PARTITION VALUE...
       kafka ... ADDRESS consume TOPIC NUMBER [GROUP]
       kafka ... ADDRESS follow TOPIC NUMBER`

// cmdKafka is a Kafka client in a script. follow reads that many records and stays
// connected, waiting for more, until the script ends.
func cmdKafka(ts *testscript.TestScript, neg bool, args []string) {
	var o []kgo.Opt
	if len(args) > 0 && strings.HasPrefix(args[0], "user=") {
		o, args = append(o, kafkaUser(ts, args[0])), args[1:]
	}
	if len(args) < 2 || len(args) < map[string]int{"list": 2, "create": 4, "produce": 5, "consume": 4, "follow": 4}[args[1]] {
		ts.Fatalf(kafkaUsage)
	}
	ctx, cancel := context.WithTimeout(context.Background(), kafkaTime)
	defer cancel()
	err := runKafka(ctx, ts, o, args)
	if err != nil {
		fmt.Fprintln(ts.Stderr(), err)
	}
	if (err != nil) != neg {
		ts.Fatalf("kafka %q: %v", args, err)
	}
}

// kafkaUser returns the option for user=NAME:MECHANISM:PASSWORD.
func kafkaUser(ts *testscript.TestScript, text string) kgo.Opt {
	part := strings.SplitN(strings.TrimPrefix(text, "user="), ":", 3)
	if len(part) != 3 {
		ts.Fatalf(kafkaUsage)
	}
	switch part[1] {
	case "plain":
		return kgo.SASL(plain.Auth{User: part[0], Pass: part[2]}.AsMechanism())
	case "scram-sha-256":
		return kgo.SASL(scram.Auth{User: part[0], Pass: part[2]}.AsSha256Mechanism())
	}
	ts.Fatalf("mechanism %q: want plain or scram-sha-256", part[1])
	return nil
}

func runKafka(ctx context.Context, ts *testscript.TestScript, o []kgo.Opt, args []string) error {
	address, verb, args := args[0], args[1], args[2:]
	number := 0
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		number = n
	}
	if verb == "consume" || verb == "follow" {
		o = append(o, consuming(args[0], strings.Join(args[2:], ""))...)
	}
	k, err := dialKafka(address, o...)
	ts.Check(err)
	if verb == "follow" {
		ts.Defer(k.Close)
	} else {
		defer k.Close()
	}
	switch verb {
	case "list":
		topics, err := k.list(ctx)
		fmt.Fprintln(ts.Stdout(), strings.Join(topics, "\n"))
		return err
	case "create":
		return k.create(ctx, args[0], int32(number))
	case "produce":
		return k.produce(ctx, args[0], int32(number), args[2:]...)
	}
	records, err := k.consume(ctx, number)
	for _, r := range records {
		fmt.Fprintf(ts.Stdout(), "%s %s", r.Key, r.Value)
		for _, h := range r.Headers {
			fmt.Fprintf(ts.Stdout(), " %s=%s", h.Key, h.Value)
		}
		fmt.Fprintln(ts.Stdout())
	}
	return err
}

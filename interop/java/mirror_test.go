package java_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mainstemdev/mainstem/interop/java"
	"github.com/mainstemdev/mainstem/interop/kafka"
	"github.com/mainstemdev/mainstem/interop/kafka/target"
)

// TestMirrorMaker mirrors a topic of one server to another with MirrorMaker 2: its
// records, its configurations, and the offsets of a group, which goes on there.
func TestMirrorMaker(t *testing.T) {
	needed(t)
	t.Parallel()
	from, to := target.Mainstem(t), target.Mainstem(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	there := kafka.NewJudge(t, to.Kafka)
	l := clients[java.Kafka41].Library()
	source, sink := l.New(kafka.Endpoint{Address: from.Kafka}), l.New(kafka.Endpoint{Address: to.Kafka})

	admin, err := source.Admin(ctx)
	must(t, err)
	configs := map[string]string{"cleanup.policy": "compact", "max.message.bytes": "123456", "compression.type": "zstd", "min.insync.replicas": "1"}
	must(t, admin.CreateTopic(ctx, "orders", 1, configs))
	must(t, admin.Close())
	here := kafka.NewJudge(t, from.Kafka)
	here.Produce(ctx, "orders", orders(0, 100))
	consume(ctx, t, source, "orders", 100)

	dir := t.TempDir()
	config := properties(t, dir, "mirror.properties", "clusters=a,b", "a.bootstrap.servers="+from.Kafka, "b.bootstrap.servers="+to.Kafka,
		"a->b.enabled=true", "b->a.enabled=false", "a->b.topics=orders", "a->b.groups=readers", "replication.factor=1",
		"checkpoints.topic.replication.factor=1", "heartbeats.topic.replication.factor=1", "offset-syncs.topic.replication.factor=1",
		"config.storage.replication.factor=1", "offset.storage.replication.factor=1", "status.storage.replication.factor=1",
		"offset.storage.partitions=1", "status.storage.partitions=1", "offset.lag.max=0", "plugin.discovery=service_load",
		"sync.group.offsets.enabled=true", "sync.group.offsets.interval.seconds=1", "emit.checkpoints.interval.seconds=1",
		"refresh.topics.interval.seconds=1", "refresh.groups.interval.seconds=1", "sync.topic.configs.interval.seconds=1")
	run(t, "org.apache.kafka.connect.mirror.MirrorMaker", []string{config}, func() error {
		// MirrorMaker translates offsets exactly at the end of what it has mirrored.
		err := eventually(ctx, func() error {
			if at := there.Committed(ctx, "readers", "a.orders"); at != 100 {
				return fmt.Errorf("the group is at %d in the mirror, want 100", at)
			}
			return nil
		})
		here.Produce(ctx, "orders", orders(100, 150)) // the group has not read these
		return cmp.Or(err, eventually(ctx, func() error {
			if end := there.End(ctx, "a.orders"); end != 150 {
				return fmt.Errorf("the mirror has %d records, want 150", end)
			}
			return nil
		}))
	})

	if diff := gocmp.Diff(here.ReadAll(ctx, "orders", false), there.ReadAll(ctx, "a.orders", false)); diff != "" {
		t.Errorf("the mirror differs (-source +mirror):\n%s", diff)
	}
	mirrored, err := sink.Admin(ctx)
	must(t, err)
	defer mirrored.Close()
	got, err := mirrored.Configs(ctx, "a.orders")
	must(t, err)
	for name, want := range configs {
		if got[name] != want {
			t.Errorf("%s of the mirror is %q, want %q", name, got[name], want)
		}
	}
	if rest := consume(ctx, t, sink, "a.orders", 50); string(rest[0].Value) != "order 100" {
		t.Errorf("the group goes on at %s, want order 100", rest[0].Value)
	}
}

// orders returns records with a key and a header each.
func orders(from, to int) []kafka.Record {
	var records []kafka.Record
	for i := from; i < to; i++ {
		records = append(records, kafka.Record{Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, "order %d", i),
			Headers: []kafka.Header{{Name: "n", Value: fmt.Append(nil, i)}}})
	}
	return records
}

// consume reads n records as a member of the group readers, commits, and leaves.
func consume(ctx context.Context, t *testing.T, cl kafka.Client, topic string, n int) (all []kafka.Record) {
	t.Helper()
	c, err := cl.Consumer(ctx, kafka.ConsumerOptions{Topic: topic, Group: "readers"})
	must(t, err)
	for len(all) < n {
		got, err := c.Poll(ctx)
		must(t, err)
		all = append(all, got...)
	}
	must(t, c.Commit(ctx))
	must(t, c.Close())
	return all
}

package kafka_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
	"github.com/mainstemdev/mainstem/wire/kafka/eventtopic"
)

// protocols are those of groups, as options of a client.
var protocols = map[string][]kgo.Opt{"classic": {}, "consumer": {kgo.ServerSideBalancer()}}

// TestGroupOfClients: an operator sees the members and the progress of a group, can change nothing
// while it has members, and a client begins at the offset to which the group was reset.
func TestGroupOfClients(t *testing.T) {
	for kind, opts := range protocols {
		t.Run(kind, func(t *testing.T) {
			b := start(t, nil, nil)
			b.topic(t, "t", 2)
			writer := b.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			for i := range 10 {
				if err := writer.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: int32(i % 2), Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			groups := kafka.NewGroups(b.topics)
			opts := append([]kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.ClientID("one"),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)
			cl := b.client(t, opts...)
			poll(t, cl, 10)
			mustBeActive(t, groups, kind)
			var failed error
			cl.CommitOffsetsSync(t.Context(), map[string]map[int32]kgo.EpochOffset{"t": {1: {Epoch: -1, Offset: 2}}},
				func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
					failed = err
				})
			if failed != nil {
				t.Fatal(failed)
			}
			if _, _, offsets, err := groups.Describe(t.Context(), "g"); err != nil || fmt.Sprint(shown(offsets)) != "[t/0 -1 5 -1 true t/1 2 5 3 true]" {
				t.Errorf("%v, %v", shown(offsets), err)
			}
			cl.Close()
			g, members, offsets, err := groups.Describe(t.Context(), "g")
			if err != nil || g.State != "Empty" || g.Type != kind || len(members) != 0 || fmt.Sprint(shown(offsets)) != "[t/1 2 5 3 false]" {
				t.Errorf("%+v, %v, %v, %v", g, members, shown(offsets), err)
			}
			reset(t, groups, kafka.ResetScope{Topics: map[string][]int32{"t": nil}}, kafka.ResetToOffset(4))
			poll(t, b.client(t, opts...), 2)
		})
	}
}

func poll(t *testing.T, cl *kgo.Client, n int) {
	t.Helper()
	for got := 0; got < n; {
		fs := cl.PollFetches(t.Context())
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		if got += fs.NumRecords(); got > n {
			t.Fatalf("%d records: want %d", got, n)
		}
	}
}

// mustBeActive checks the group g of kind while one client is its member.
func mustBeActive(t *testing.T, groups *kafka.Groups, kind string) {
	t.Helper()
	g, members, _, err := groups.Describe(t.Context(), "g")
	if err != nil || g.State != "Stable" || g.Type != kind || g.Members != 1 || g.Protocol == "" || g.Epoch < 1 {
		t.Fatalf("%+v, %v", g, err)
	}
	if m := members[0]; m.Client != "one" || m.Host != "/127.0.0.1" || fmt.Sprint(m.Assigned) != "[{t [0 1]}]" {
		t.Errorf("%+v", m)
	}
	all, err := groups.All(t.Context())
	if g.Protocol = ""; err != nil || len(all) != 1 || all[0] != g {
		t.Errorf("%+v, %v", all, err)
	}
	_, err = groups.PlanReset(t.Context(), "g", kafka.ResetScope{AllTopics: true}, kafka.ResetToEarliest())
	for _, err := range []error{err, groups.Delete(t.Context(), "g")} {
		if !errors.Is(err, mainstem.ErrConflict) {
			t.Errorf("with a member: %v", err)
		}
	}
}

// shown is topic, offset, end, lag and whether a member has the partition.
func shown(offsets []kafka.GroupOffset) []any {
	var out []any
	for _, o := range offsets {
		out = append(out, fmt.Sprintf("%s/%d", o.Topic, o.Partition), o.Next, o.End, o.Lag(), o.Member != "")
	}
	return out
}

func reset(t *testing.T, groups *kafka.Groups, scope kafka.ResetScope, to kafka.ResetTo) *kafka.ResetPlan {
	t.Helper()
	plan, err := groups.PlanReset(t.Context(), "g", scope, to)
	if err == nil {
		err = plan.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestResets: each way to name offsets, in partitions of which one lost its beginning.
func TestResets(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 2)
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	cl := b.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 20 {
		r := &kgo.Record{Topic: "t", Partition: int32(i % 2), Timestamp: at.Add(time.Duration(i) * time.Minute)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tp.DeleteRecords(t.Context(), 1, 3); err != nil {
		t.Fatal(err)
	}
	groups := kafka.NewGroups(b.topics)
	for _, c := range []struct {
		to   kafka.ResetTo
		want string // old, new and clamped of each partition that begins with 5
	}{
		{kafka.ResetToEarliest(), "5-0 5-3"},
		{kafka.ResetToLatest(), "5-10 5-10"},
		{kafka.ResetToOffset(2), "5-2 5-3*"},
		{kafka.ResetToOffset(99), "5-10* 5-10*"},
		{kafka.ResetBy(-3), "5-2 5-3*"},
		{kafka.ResetBy(2), "5-7 5-7"},
		{kafka.ResetBy(math.MaxInt64), "5-10* 5-10*"},
		{kafka.ResetBy(math.MinInt64), "5-0* 5-3*"},
		{kafka.ResetToTime(at.Add(9 * time.Minute)), "5-5 5-4"},
		{kafka.ResetToTime(at.Add(time.Hour)), "5-10 5-10"},
	} {
		reset(t, groups, kafka.ResetScope{Topics: map[string][]int32{"t": nil}}, kafka.ResetToOffset(5))
		got := ""
		for _, o := range reset(t, groups, kafka.ResetScope{AllTopics: true}, c.to).Offsets {
			star := ""
			if o.Clamped {
				star = "*"
			}
			got += fmt.Sprintf(" %d-%d%s", o.Old, o.New, star)
			if stored, err := tp.Offsets("g").Load(t.Context()); err != nil || stored[o.Partition].Next != o.New {
				t.Errorf("%+v: stored %v, %v", c.to, stored, err)
			}
		}
		if got != " "+c.want {
			t.Errorf("%+v: got%s, want %s", c.to, got, c.want)
		}
	}
	refused(t, groups)
}

// refused checks resets of the group "new" that cannot be done.
func refused(t *testing.T, groups *kafka.Groups) {
	t.Helper()
	for _, c := range []struct {
		scope kafka.ResetScope
		to    kafka.ResetTo
		kind  mainstem.Kind
	}{
		{kafka.ResetScope{Topics: map[string][]int32{"t": {0}}}, kafka.ResetBy(1), mainstem.KindInvalid},
		{kafka.ResetScope{Topics: map[string][]int32{"t": {2}}}, kafka.ResetToLatest(), mainstem.KindNotFound},
		{kafka.ResetScope{Topics: map[string][]int32{"none": nil}}, kafka.ResetToLatest(), mainstem.KindNotFound},
	} {
		if _, err := groups.PlanReset(t.Context(), "new", c.scope, c.to); mainstem.KindOf(err) != c.kind {
			t.Errorf("%+v: %v, want %v", c, err, c.kind)
		}
	}
	if _, _, _, err := groups.Describe(t.Context(), "new"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Error(err)
	}
	if _, err := groups.PlanReset(t.Context(), "", kafka.ResetScope{AllTopics: true}, kafka.ResetToLatest()); !errors.Is(err, mainstem.ErrInvalid) {
		t.Error(err)
	}
}

// TestResetAfterMemberJoined: a plan fails once a member has joined the group.
func TestResetAfterMemberJoined(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "t", 1)
	groups := kafka.NewGroups(b.topics)
	plan, err := groups.PlanReset(t.Context(), "g", kafka.ResetScope{Topics: map[string][]int32{"t": nil}}, kafka.ResetToLatest())
	if err != nil {
		t.Fatal(err)
	}
	cl := b.client(t, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	poll(t, cl, 1)
	if err := plan.Commit(t.Context()); !errors.Is(err, mainstem.ErrConflict) {
		t.Error(err)
	}
}

// TestDeletedGroupBeginsAnew: clients can use a group that an operator has deleted, although the
// server has it in memory.
func TestDeletedGroupBeginsAnew(t *testing.T) {
	b := start(t, nil, nil)
	tp := b.topic(t, "t", 1)
	c := b.raw(t)
	commit := func(offset int64) {
		t.Helper()
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = "g", -1
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset = offset
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		if code := ask[*kmsg.OffsetCommitResponse](c, req, 8).Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatalf("commit %d: code %d", offset, code)
		}
	}
	commit(1)
	groups := kafka.NewGroups(b.topics)
	if err := groups.Delete(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	if stored, err := tp.Offsets("g").Load(t.Context()); err != nil || len(stored) != 0 {
		t.Errorf("%v, %v", stored, err)
	}
	if err := groups.Delete(t.Context(), "g"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("again: %v", err)
	}
	commit(2)
	if stored, err := tp.Offsets("g").Load(t.Context()); err != nil || stored[0].Next != 2 {
		t.Errorf("%v, %v", stored, err)
	}
}

// TestResetOfEventTopic: offsets of an event store can be reset, and offsets of a deleted topic are
// not shown.
func TestResetOfEventTopic(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		topics, err := topic.Open(log, &topic.Options{Every: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer topics.Close()
		store, err := event.Open(log, "orders", nil)
		if err == nil {
			_, err = store.Append(t.Context(), "order-1", event.AnyVersion, []event.Event{{Type: "placed", Data: []byte("{}")}})
		}
		if err != nil {
			t.Fatal(err)
		}
		events := eventtopic.Open(log, nil)
		defer events.Close()
		groups := kafka.NewGroups(topics, events)
		gone, err := topics.Create(t.Context(), "gone", topic.Spec{})
		if err == nil {
			err = gone.Offsets("g").Commit(t.Context(), 0, 0)
		}
		if err == nil {
			err = topics.Delete(t.Context(), "gone")
		}
		if err != nil {
			t.Fatal(err)
		}
		reset(t, groups, kafka.ResetScope{Topics: map[string][]int32{"event.orders": nil}}, kafka.ResetToEarliest())
		g, _, offsets, err := groups.Describe(t.Context(), "g")
		if err != nil || len(offsets) != 1 || offsets[0].Topic != "event.orders" || offsets[0].Lag() < 1 || g.State != "Empty" {
			t.Errorf("%+v, %+v, %v", g, offsets, err)
		}
		if err := groups.Delete(t.Context(), "g"); err != nil {
			t.Error(err)
		}
		if all, err := groups.All(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%v, %v", all, err)
		}
	})
}

package kafka_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/topic"
)

func eventStore(t testing.TB, b *broker, name string) *event.Store {
	t.Helper()
	s, err := event.Open(b.log, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// commits appends the real input of the commits example, each to the stream of its
// author, and returns the lines.
func commits(t testing.TB, log mainstem.Log, s *event.Store) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "examples", "commits", "testdata", "commits.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		lines = append(lines, in.Text())
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(lines, 500) {
		b := mainstem.NewBatch()
		for _, line := range part {
			var c struct{ ID, Author string }
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatal(err)
			}
			s.AppendTo(b, "author-"+c.Author, event.AnyVersion, []event.Event{{
				Type: "commit", Data: []byte(line), Metadata: event.Metadata{Custom: map[string]string{"commit": c.ID}},
			}})
		}
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// described returns the metadata of topics by name; of all topics if none are named.
func described(t testing.TB, cl *kgo.Client, names ...string) map[string]kmsg.MetadataResponseTopic {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, one)
	}
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]kmsg.MetadataResponseTopic{}
	for _, tp := range resp.Topics {
		out[*tp.Topic] = tp
	}
	return out
}

// offsetAt asks where a timestamp is in partition 0 of a topic.
func offsetAt(t testing.TB, cl *kgo.Client, name string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Timestamp = timestamp
	one := kmsg.NewListOffsetsRequestTopic()
	one.Topic, one.Partitions = name, append(one.Partitions, part)
	req.Topics = append(req.Topics, one)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	p := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		t.Fatalf("%s at %d: %v", name, timestamp, err)
	}
	return p
}

func headers(r *kgo.Record) map[string]string {
	out := map[string]string{}
	for _, h := range r.Headers {
		out[h.Key] = string(h.Value)
	}
	return out
}

func TestEventTopicsHoldAllEvents(t *testing.T) {
	b := start(t, nil, nil)
	s := eventStore(t, b, "commits")
	lines := commits(t, b.log, s)
	if len(lines) != 2819 {
		t.Fatalf("%d commits", len(lines))
	}
	for _, name := range []string{"event.commits", "event.commits.author"} {
		for _, isolation := range []kgo.IsolationLevel{kgo.ReadUncommitted(), kgo.ReadCommitted()} {
			cl := b.client(t, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(isolation), kgo.FetchMaxPartitionBytes(64<<10))
			got := records(t, cl, len(lines))
			if len(got) != len(lines) {
				t.Fatalf("%s: %d records, want %d", name, len(got), len(lines))
			}
			for i, r := range got {
				var c struct{ ID, Author string }
				_ = json.Unmarshal([]byte(lines[i]), &c)
				h := headers(r)
				if string(r.Value) != lines[i] || string(r.Key) != "author-"+c.Author || h["metadata.commit"] != c.ID ||
					h["event-type"] != "commit" || h["event-position"] != fmt.Sprint(r.Offset) {
					t.Fatalf("%s: record %d is %+v", name, i, r)
				}
			}
			cl.Close()
		}
	}
}

func TestEventTopicsFromAnOffsetAndATime(t *testing.T) {
	b := start(t, nil, nil)
	s := eventStore(t, b, "s")
	var all []event.Recorded
	for i := range 20 {
		if _, err := s.Append(t.Context(), fmt.Sprintf("%c-1", 'a'+i%2), event.AnyVersion, []event.Event{{Type: "T", Data: fmt.Append(nil, i)}}); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			b.topic(t, fmt.Sprint("between", i), 1) // so that offsets have gaps
		}
	}
	for ev, err := range s.Feed(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ev.Clone())
	}
	first := func(o kgo.Offset) string {
		cl := b.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"event.s": {0: o}}))
		defer cl.Close()
		return string(records(t, cl, 1)[0].Value)
	}
	for i, ev := range all {
		if got := first(kgo.NewOffset().At(int64(ev.Position))); got != fmt.Sprint(i) {
			t.Errorf("from offset %d: %s, want %d", ev.Position, got, i)
		}
		want := slices.IndexFunc(all, func(o event.Recorded) bool { return o.Time.UnixMilli() >= ev.Time.UnixMilli() })
		if got := first(kgo.NewOffset().AfterMilli(ev.Time.UnixMilli())); got != fmt.Sprint(want) {
			t.Errorf("from time %v: %s, want %d", ev.Time, got, want)
		}
	}
	if got := first(kgo.NewOffset().AtEnd().Relative(-1)); got != "19" {
		t.Errorf("before the end: %s", got)
	}
	cl := b.client(t)
	for _, c := range []struct {
		name            string
		timestamp, want int64
	}{
		{"event.s", -2, 0},
		{"event.s", -1, int64(all[19].Position) + 1},
		{"event.s.a", -2, 0},
		{"event.s.a", -1, int64(all[18].Position) + 1},
	} {
		if got := offsetAt(t, cl, c.name, c.timestamp).Offset; got != c.want {
			t.Errorf("%s at %d: offset %d, want %d", c.name, c.timestamp, got, c.want)
		}
	}
	if got := offsetAt(t, cl, "event.s", -3).Timestamp; got != all[19].Time.UnixMilli() {
		t.Errorf("the newest timestamp is %d, want %d", got, all[19].Time.UnixMilli())
	}
}

// TestEventTopicsFromTheTail reads events as they are written, without waiting for the
// end of a fetch.
func TestEventTopicsFromTheTail(t *testing.T) {
	b := start(t, nil, nil)
	s := eventStore(t, b, "s")
	// The consumer is there first: a store begins with its first event.
	cl := b.client(t, kgo.ConsumeTopics("event.s"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(time.Minute), kgo.MetadataMinAge(10*time.Millisecond), kgo.UnknownTopicRetries(-1))
	part := b.client(t, kgo.ConsumeTopics("event.s.b"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(time.Minute), kgo.MetadataMinAge(10*time.Millisecond), kgo.UnknownTopicRetries(-1))
	for i := range 200 {
		stream := fmt.Sprintf("%c-%d", 'a'+i%2, i)
		if _, err := s.Append(t.Context(), stream, event.NoStream, []event.Event{{Type: "T", Data: fmt.Append(nil, i)}}); err != nil {
			t.Fatal(err)
		}
		readers := []*kgo.Client{cl}
		if i%2 == 1 {
			readers = append(readers, part)
		}
		for _, cl := range readers {
			if got := records(t, cl, 1); len(got) != 1 || string(got[0].Value) != fmt.Sprint(i) {
				t.Fatalf("event %d is %q", i, got[0].Value)
			}
		}
	}
	// A consumer at the end gets past records that are not shown.
	if err := s.Delete(t.Context(), "a-0", event.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), "b-x", event.NoStream, []event.Event{{Type: "T", Data: []byte("after")}}); err != nil {
		t.Fatal(err)
	}
	if got := records(t, cl, 1); string(got[0].Value) != "after" {
		t.Errorf("after a deletion: %q", got[0].Value)
	}
}

// TestEventTopicsWhileTheyAreWritten: several writers, and readers that miss nothing
// and see nothing twice.
func TestEventTopicsWhileTheyAreWritten(t *testing.T) {
	b := start(t, nil, nil)
	s := eventStore(t, b, "s")
	const writers, each = 4, 150
	written := make(chan error, writers)
	for w := range writers {
		go func() {
			var err error
			for i := 0; i < each && err == nil; i++ {
				_, err = s.Append(context.Background(), fmt.Sprintf("%c-1", 'a'+w), event.AtVersion(mainstem.Version(i)), []event.Event{{Type: "T", Data: fmt.Append(nil, i)}})
			}
			written <- err
		}()
	}
	for name, n := range map[string]int{"event.s": writers * each, "event.s.b": each} {
		cl := b.client(t, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(10*time.Millisecond), kgo.UnknownTopicRetries(-1))
		next, offset := map[string]int{}, int64(-1)
		for _, r := range records(t, cl, n) {
			if r.Offset <= offset || string(r.Value) != fmt.Sprint(next[string(r.Key)]) {
				t.Fatalf("%s: %s of %s at %d, after %d of it and offset %d", name, r.Value, r.Key, r.Offset, next[string(r.Key)], offset)
			}
			next[string(r.Key)]++
			offset = r.Offset
		}
		cl.Close()
	}
	for range writers {
		if err := <-written; err != nil {
			t.Fatal(err)
		}
	}
}

func TestEventTopicsAreListed(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "plain", 2)
	commits(t, b.log, eventStore(t, b, "commits"))
	all := described(t, b.client(t))
	if got, want := slices.Sorted(maps.Keys(all)), []string{"event.commits", "event.commits.author", "plain"}; !slices.Equal(got, want) {
		t.Fatalf("topics %q, want %q", got, want)
	}
	if d := all["event.commits"]; len(d.Partitions) != 1 || d.TopicID == [16]byte{} || d.ErrorCode != 0 {
		t.Errorf("event.commits is %+v", d)
	}
	again := described(t, b.client(t), "event.commits", "event.none")
	if again["event.commits"].TopicID != all["event.commits"].TopicID {
		t.Error("the ID changed")
	}
	if code := again["event.none"].ErrorCode; code != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("event.none has the code %d", code)
	}
}

// TestEventTopicsAreReadOnly also tries to create and delete them.
func TestEventTopicsAreReadOnly(t *testing.T) {
	b := start(t, nil, nil)
	commits(t, b.log, eventStore(t, b, "commits"))
	for _, name := range []string{"event.commits", "event.commits.author"} {
		cl := b.client(t, kgo.DefaultProduceTopic(name), kgo.AllowAutoTopicCreation())
		err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr()
		if !errors.Is(err, kerr.InvalidTopicException) {
			t.Errorf("produce to %s: %v", name, err)
		}
		req := kmsg.NewPtrProduceRequest()
		req.Acks = -1
		req.TimeoutMillis = 1000
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic = name
		rt.TopicID = described(t, cl, name)[name].TopicID
		rt.Partitions = append(rt.Partitions, kmsg.NewProduceRequestTopicPartition())
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		if p := resp.Topics[0].Partitions[0]; p.ErrorMessage == nil || !strings.Contains(*p.ErrorMessage, "shows the events of a store") {
			t.Errorf("produce to %s is refused without saying why: %+v", name, p)
		}
		del := kmsg.NewPtrDeleteTopicsRequest()
		one := kmsg.NewDeleteTopicsRequestTopic()
		one.Topic = kmsg.StringPtr(name)
		del.Topics, del.TopicNames = append(del.Topics, one), []string{name}
		if resp, err := del.RequestWith(t.Context(), cl); err != nil || resp.Topics[0].ErrorCode == 0 {
			t.Errorf("deleting %s: %+v, %v", name, resp, err)
		}
	}
	// No topic comes to be where a store could come to be.
	cl := b.client(t, kgo.DefaultProduceTopic("event.new"), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(1))
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("produce to event.new: %v", err)
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = "event.new", 1, 1
	create.Topics = append(create.Topics, one)
	if resp, err := create.RequestWith(t.Context(), cl); err != nil || resp.Topics[0].ErrorCode != kerr.InvalidTopicException.Code {
		t.Errorf("creating event.new: %+v, %v", resp, err)
	}
	for tp, err := range b.topics.All(t.Context()) {
		t.Errorf("topic %v, %v", tp, err)
	}
}

// TestATopicHidesAnEventStore: a topic that a program has created keeps working.
func TestATopicHidesAnEventStore(t *testing.T) {
	b := start(t, nil, nil)
	if _, err := b.topics.Create(t.Context(), "event.s", topic.Spec{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	s := eventStore(t, b, "s")
	if _, err := s.Append(t.Context(), "a-1", event.NoStream, []event.Event{{Type: "T"}}); err != nil {
		t.Fatal(err)
	}
	if all := described(t, b.client(t)); len(all) != 2 || len(all["event.s"].Partitions) != 3 || len(all["event.s.a"].Partitions) != 1 {
		t.Errorf("%+v", all)
	}
}

// TestGroupsReadEventTopics: a member leaves, another continues at its offset.
func TestGroupsReadEventTopics(t *testing.T) {
	b := start(t, nil, nil)
	lines := commits(t, b.log, eventStore(t, b, "commits"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for len(got) < len(lines) {
		cl := b.client(t, kgo.ConsumeTopics("event.commits"), kgo.ConsumerGroup("g"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxPartitionBytes(64<<10))
		for want := min(len(got)+1000, len(lines)); len(got) < want; {
			fs := cl.PollRecords(ctx, want-len(got))
			if err := fs.Err0(); err != nil {
				t.Fatalf("after %d: %v", len(got), err)
			}
			for _, e := range fs.Errors() {
				t.Fatalf("after %d: %+v", len(got), e)
			}
			for _, r := range fs.Records() {
				got = append(got, string(r.Value))
			}
			if err := cl.CommitRecords(ctx, fs.Records()...); err != nil {
				t.Fatal(err)
			}
		}
		cl.Close()
	}
	if !slices.Equal(got, lines) {
		t.Error("the members of the group did not read every event once, in order")
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = "g"
	req.Group, req.Groups = "g", append(req.Groups, one)
	cl := b.client(t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil || len(resp.Groups) != 1 || len(resp.Groups[0].Topics) != 1 {
		t.Fatalf("%+v, %v", resp, err)
	}
	end := offsetAt(t, cl, "event.commits", -1).Offset
	if at := resp.Groups[0].Topics[0].Partitions[0].Offset; at != end {
		t.Errorf("the group is at %d, the end is %d", at, end)
	}
}

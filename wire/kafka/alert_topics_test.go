package kafka_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

func alertServer(t testing.TB, log mainstem.Log) *alert.Server {
	t.Helper()
	s, err := alert.Open(t.Context(), log, &alert.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func raise(t testing.TB, s *alert.Server, id string) {
	t.Helper()
	if _, err := s.Exec(t.Context(), "insert into alerts.status (Identifier, Summary) values (?, 'x')", id); err != nil {
		t.Fatal(err)
	}
}

// alertRow has the fields of a value that the tests check.
type alertRow struct {
	Identifier string
	Tally      int
	Serial     int
}

func rowOf(t testing.TB, r *kgo.Record) alertRow {
	t.Helper()
	var row alertRow
	if err := json.Unmarshal(r.Value, &row); err != nil {
		t.Fatalf("%s: %v", r.Value, err)
	}
	return row
}

func TestAlertTopicsFromTheStart(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := alertServer(t, log)
		b := serve(t, log, nil, nil)
		const rows = 300
		for i := range rows * 2 {
			raise(t, s, fmt.Sprint("id", i%rows))
		}
		if _, err := s.Exec(t.Context(), "delete from alerts.status where Identifier = 'id7'"); err != nil {
			t.Fatal(err)
		}
		for _, isolation := range []kgo.IsolationLevel{kgo.ReadUncommitted(), kgo.ReadCommitted()} {
			cl := b.client(t, kgo.ConsumeTopics("alert.status"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(isolation), kgo.FetchMaxPartitionBytes(64<<10))
			got := records(t, cl, rows)
			offset := int64(-1)
			for _, r := range got[:rows-1] {
				row := rowOf(t, r)
				if string(r.Key) != row.Identifier || row.Tally != 2 || headers(r)["alert-serial"] != fmt.Sprint(row.Serial) || r.Offset <= offset {
					t.Fatalf("%d %s %s", r.Offset, r.Key, r.Value)
				}
				offset = r.Offset
			}
			last := got[rows-1]
			if string(last.Key) != "id7" || last.Value != nil || headers(last)["alert-change"] != "delete" {
				t.Errorf("the newest record is %+v", last)
			}
			cl.Close()
		}
	})
}

// TestAlertTopicsFromTheTail: a consumer that follows sees every change, without
// waiting for the end of a fetch.
func TestAlertTopicsFromTheTail(t *testing.T) {
	b := start(t, nil, nil)
	// The consumer is there first: the tables come with the first server.
	cl := b.client(t, kgo.ConsumeTopics("alert.status"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(time.Minute), kgo.MetadataMinAge(10*time.Millisecond), kgo.UnknownTopicRetries(-1))
	s := alertServer(t, b.log)
	for i := range 50 {
		raise(t, s, "a")
		if row := rowOf(t, records(t, cl, 1)[0]); row.Tally != i+1 {
			t.Fatalf("change %d has Tally %d", i, row.Tally)
		}
	}
	if _, err := s.Exec(t.Context(), "delete from alerts.status"); err != nil {
		t.Fatal(err)
	}
	if r := records(t, cl, 1)[0]; r.Value != nil || string(r.Key) != "a" {
		t.Errorf("%+v", r)
	}
	raise(t, s, "a")
	if r := records(t, cl, 1)[0]; rowOf(t, r).Tally != 1 || headers(r)["alert-version"] != "52" {
		t.Errorf("%+v", r)
	}
}

// TestAlertTopicsAfterARestart: a group continues at the same offsets in another process with
// the same directory.
func TestAlertTopicsAfterARestart(t *testing.T) {
	dir := t.TempDir()
	const rows = 100
	session := func(do func(b *broker, s *alert.Server)) {
		log, err := pebblelog.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		s, err := alert.Open(t.Context(), log, &alert.Options{Every: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		topics, err := topic.Open(log, &topic.Options{Every: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer topics.Close()
		server, err := kafka.Open(t.Context(), topics, withSources(t, log, nil))
		if err != nil {
			t.Fatal(err)
		}
		l := listen(t)
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l, nil) }()
		do(&broker{Server: server, topics: topics, log: log, addr: l.Addr().String()}, s)
		if err := errors.Join(server.Shutdown(context.WithoutCancel(t.Context())), <-ended); err != nil {
			t.Error(err)
		}
	}
	consume := func(b *broker, n int) []*kgo.Record {
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ConsumeTopics("alert.status"), kgo.ConsumerGroup("g"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		var got []*kgo.Record
		for len(got) < n {
			fs := cl.PollRecords(t.Context(), n-len(got))
			if err := fs.Err(); err != nil {
				t.Fatal(err)
			}
			got = append(got, fs.Records()...)
		}
		if err := cl.CommitRecords(t.Context(), got...); err != nil {
			t.Fatal(err)
		}
		return got
	}
	var id [16]byte
	var got []*kgo.Record
	session(func(b *broker, s *alert.Server) {
		for i := range rows {
			raise(t, s, fmt.Sprint("id", i))
		}
		got = consume(b, 40)
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		id = described(t, cl, "alert.status")["alert.status"].TopicID
	})
	session(func(b *broker, s *alert.Server) {
		raise(t, s, "id5") // read already: it comes again, at the end
		raise(t, s, "id60")
		more := consume(b, rows-40+1)
		var keys []string
		for _, r := range more {
			keys = append(keys, string(r.Key))
		}
		var want []string
		for i := 40; i < rows; i++ {
			if i != 60 {
				want = append(want, fmt.Sprint("id", i))
			}
		}
		if want = append(want, "id5", "id60"); !slices.Equal(keys, want) || more[0].Offset <= got[39].Offset {
			t.Errorf("after the restart\n%q\nwant\n%q", keys, want)
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"alert.status": {0: kgo.NewOffset().At(got[20].Offset)}}))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if r := records(t, cl, 1)[0]; string(r.Key) != string(got[20].Key) || r.Offset != got[20].Offset || string(r.Value) != string(got[20].Value) {
			t.Errorf("offset %d is another record now: %s", got[20].Offset, r.Key)
		}
		if described(t, cl, "alert.status")["alert.status"].TopicID != id {
			t.Error("the topic has another ID after a restart")
		}
	})
}

func TestAlertTopicsAreListed(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "plain", 2)
	alertServer(t, b.log)
	all := described(t, b.client(t))
	want := []string{"alert.conversions", "alert.details", "alert.journal", "alert.master.stats", "alert.service.status", "alert.status", "plain"}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Fatalf("topics %q, want %q", got, want)
	}
	if d := all["alert.status"]; len(d.Partitions) != 1 || d.TopicID == [16]byte{} || d.ErrorCode != 0 {
		t.Errorf("alert.status is %+v", d)
	}
	cl := b.client(t)
	for timestamp, want := range map[int64]int64{-2: 0, -1: 0} {
		if got := offsetAt(t, cl, "alert.status", timestamp).Offset; got != want {
			t.Errorf("at %d: offset %d, want %d", timestamp, got, want)
		}
	}
}

// TestAlertTopicsAreReadOnly also tries to create and delete them.
func TestAlertTopicsAreReadOnly(t *testing.T) {
	b := start(t, nil, nil)
	s := alertServer(t, b.log)
	raise(t, s, "a")
	cl := b.client(t, kgo.DefaultProduceTopic("alert.status"), kgo.AllowAutoTopicCreation())
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); !errors.Is(err, kerr.InvalidTopicException) {
		t.Errorf("produce: %v", err)
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	one := kmsg.NewDeleteTopicsRequestTopic()
	one.Topic = kmsg.StringPtr("alert.status")
	del.Topics, del.TopicNames = append(del.Topics, one), []string{"alert.status"}
	if resp, err := del.RequestWith(t.Context(), cl); err != nil || resp.Topics[0].ErrorMessage == nil || !strings.Contains(*resp.Topics[0].ErrorMessage, "a table of alerts") {
		t.Errorf("deleting: %+v, %v", resp, err)
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range []string{"alert.status", "alert.new", "alert.other.new"} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		create.Topics = append(create.Topics, topic)
	}
	resp, err := create.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	for _, tp := range resp.Topics {
		if tp.ErrorCode != kerr.InvalidTopicException.Code {
			t.Errorf("creating %s: %d", tp.Topic, tp.ErrorCode)
		}
	}
	// A name that no table can have is free for topics, and a topic that a program has created keeps working.
	if _, err := b.topics.Create(t.Context(), "alert.journal", topic.Spec{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "alert.a.b.c", Value: []byte("x")}, &kgo.Record{Topic: "alerts", Value: []byte("x")}).FirstErr(); err != nil {
		t.Error(err)
	}
	if all := described(t, cl); len(all["alert.journal"].Partitions) != 3 || len(all["alert.a.b.c"].Partitions) != 1 {
		t.Errorf("%+v", all)
	}
}

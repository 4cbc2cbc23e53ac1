package kafka

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// The connection keeps the batches of an answer until it is encoded, also in a session, whose
// parts drop their references at once.
func TestSessionReturnsMemoryOfBatches(t *testing.T) {
	for _, id := range []int32{0, 1} { // without and with a session
		data := getBuffer(1 << 20)[:1<<20]
		part := &fetchPart{name: "t", chunk: partition.Chunk{Data: data}}
		f := &fetch{c: &conn{}, parts: []*fetchPart{part}, bytes: len(data)}
		f.fill(new(kmsg.FetchResponse), &session{id: id, incremental: id != 0, parts: f.parts})
		if got := f.c.fetched; len(got) != 1 || &got[0][0] != &data[0] || f.c.batches != len(data) {
			t.Errorf("session %d: the connection keeps %d buffers of %d bytes, want the one of %d", id, len(got), f.c.batches, len(data))
		}
		if f.c.dropBatches(); len(f.c.fetched) != 0 || f.c.batches != 0 {
			t.Errorf("session %d: the connection still keeps %d buffers", id, len(f.c.fetched))
		}
	}
}

// ending is a log that calls onRead, if it is not nil, when Read begins.
type ending struct {
	mainstem.Log
	onRead func()
}

func (l *ending) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	if l.onRead != nil {
		l.onRead()
	}
	return l.Log.Read(ctx, space, key, v)
}

// fetchOn returns a fetch of a topic with one partition, with the given records in one batch, as it
// is after the first read.
func fetchOn(t *testing.T, log mainstem.Log, committed bool, records ...topic.Record) (*fetch, *topic.Topic) {
	t.Helper()
	topics, err := topic.Open(log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), topics, nil)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	c := newConn(s, ours, nil, nil)
	t.Cleanup(func() {
		c.fetch.close()
		if err := errors.Join(ours.Close(), theirs.Close(), s.Shutdown(context.Background()), topics.Close()); err != nil {
			t.Error(err)
		}
	})
	tp, err := topics.Create(t.Context(), "t", topic.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tp.Publish(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	p := &fetchPart{name: "t", epoch: -1, limit: 1 << 20}
	f := &fetch{s: s, c: c, parts: []*fetchPart{p}, committed: committed, maxBytes: 1 << 20}
	if f.begin(t.Context(), p); p.code != 0 || len(p.chunk.Data) == 0 {
		t.Fatalf("code %d, %d bytes", p.code, len(p.chunk.Data))
	}
	return f, tp
}

// The end of a wait is no error: the answer has the batches that were read before.
func TestEndOfWaitIsNoError(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, wait := range map[string]func(*fetch, *topic.Topic){
		"before the registration": func(f *fetch, _ *topic.Topic) { f.wait(over, 1<<20) },
		"before a read":           func(f *fetch, tp *topic.Topic) { f.readGrown(over, []topic.TopicPartition{{Topic: tp}}) },
		"during a registration": func(f *fetch, _ *topic.Topic) {
			ctx, cancel := context.WithCancel(t.Context())
			f.s.log.(*ending).onRead = cancel
			f.wait(ctx, 1<<20)
		},
		"during a read": func(f *fetch, tp *topic.Topic) {
			ctx, cancel := context.WithCancel(t.Context())
			f.s.log.(*ending).onRead = cancel
			f.readGrown(ctx, []topic.TopicPartition{{Topic: tp}})
		},
	} {
		for _, committed := range []bool{false, true} {
			f, tp := fetchOn(t, &ending{Log: testengines.Memory(t)}, committed, topic.Record{Value: []byte("a")})
			p := f.parts[0]
			had := bytes.Clone(p.chunk.Data)
			if _, err := tp.Publish(t.Context(), topic.Record{Value: []byte("b")}); err != nil {
				t.Fatal(err)
			}
			wait(f, tp)
			if p.code != 0 || !bytes.Equal(p.chunk.Data, had) || p.chunk.Next != 1 || f.bytes != len(had) {
				t.Errorf("%s, committed %v: %v, next %d, %d bytes, want %d", name, committed, kerr.ErrorForCode(p.code), p.chunk.Next, len(p.chunk.Data), len(had))
			}
		}
	}
}

// A partition has no code that Java's consumer does not expect there.
func TestReadCanceledByTheLog(t *testing.T) {
	f, _ := fetchOn(t, testengines.Memory(t), false, topic.Record{Value: []byte("a")})
	p := f.parts[0]
	f.fail(p, context.DeadlineExceeded)
	if p.code != kerr.KafkaStorageError.Code || f.bytes != 0 || len(p.chunk.Data) != 0 {
		t.Errorf("%v, %d bytes", kerr.ErrorForCode(p.code), f.bytes)
	}
}

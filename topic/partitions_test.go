package topic_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// counting counts the calls that read from a log.
type counting struct {
	mainstem.Log
	calls atomic.Int64
}

func (c *counting) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	c.calls.Add(1)
	return c.Log.Get(ctx, space, key)
}

func (c *counting) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	c.calls.Add(1)
	return c.Log.Scan(ctx, space, r)
}

func (c *counting) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	c.calls.Add(1)
	return c.Log.Read(ctx, space, key, v)
}

// Creating and opening a topic takes a few calls of the log, whatever its number of partitions, and
// each partition has the right start.
func TestManyPartitionsTakeFewCalls(t *testing.T) {
	const partitions, trimmed = 20_000, 12_345
	log := &counting{Log: testengines.Memory(t)}
	open := func() *topic.Catalog {
		c, err := topic.Open(log, &topic.Options{Every: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	few := func(what string) {
		t.Helper()
		if n := log.calls.Swap(0); n > 10 {
			t.Errorf("to %s a topic of %d partitions took %d calls of the log", what, partitions, n)
		}
	}
	tp, err := open().Create(t.Context(), "t", topic.Spec{Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	few("create")
	var b recordbatch.Builder
	b.Append(&recordbatch.Record{Timestamp: 1, Value: []byte("v")})
	batch, err := b.Finish(recordbatch.None)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := tp.Append(t.Context(), trimmed, batch); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tp.DeleteRecords(t.Context(), trimmed, 2); err != nil {
		t.Fatal(err)
	}
	log.calls.Store(0)
	again, err := open().Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	few("open")
	var out *topic.OutOfRangeError
	if _, err := again.Read(t.Context(), trimmed, 1, nil); !errors.As(err, &out) || out.Start != 2 {
		t.Errorf("a trimmed partition: %v", err)
	}
	if chunk, err := again.Read(t.Context(), trimmed, 2, nil); err != nil || chunk.Start != 2 || len(chunk.Data) == 0 {
		t.Errorf("%+v, %v", chunk, err)
	}
	if chunk, err := again.Read(t.Context(), trimmed+1, 0, nil); err != nil || chunk.Start != 0 {
		t.Errorf("%+v, %v", chunk, err)
	}
}

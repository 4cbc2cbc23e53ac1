package topic_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// bombSize is about the decompressed size of the batches of these tests.
const bombSize = 8 << 20

// bomb returns a batch of a few kilobytes that decompresses to bombSize.
func bomb(t *testing.T, key string, c recordbatch.Codec) []byte {
	t.Helper()
	var b recordbatch.Builder
	for i := range 8 {
		b.Append(&recordbatch.Record{Timestamp: int64(1000 + i), Key: []byte(key), Value: make([]byte, bombSize/8)})
	}
	batch, err := b.Finish(c)
	if err != nil {
		t.Fatal(err)
	}
	if c != recordbatch.Snappy && len(batch) > bombSize/64 {
		t.Fatalf("%d bytes are no bomb", len(batch))
	}
	return batch
}

// bombed returns a compacted topic with some bombs, whose catalog has the budget memory.
func bombed(t *testing.T, memory *budget.Budget, c recordbatch.Codec) *topic.Topic {
	t.Helper()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	topics, err := topic.Open(log, &topic.Options{Every: -1, Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(topics.Close(), log.Close()); err != nil {
			t.Error(err)
		}
	})
	compacted, err := topics.Create(t.Context(), "t", topic.Spec{Config: map[string]string{topic.CleanupPolicy: "compact"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if _, err := compacted.Append(t.Context(), 0, bomb(t, fmt.Sprint("k", i%2), c)); err != nil {
			t.Fatal(err)
		}
	}
	return compacted
}

// starved returns the error of f when it is canceled while it waits for memory.
func starved(t *testing.T, memory *budget.Budget, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	testkit.Eventually(t, "it waits for memory or ends", func() bool { return waits(memory) || len(done) > 0 })
	cancel()
	return <-done
}

// waits reports whether a hold waits for bytes of memory or of a budget below it.
func waits(memory *budget.Budget) bool {
	return slices.ContainsFunc(memory.Stats(), func(s budget.Stats) bool { return s.Waiting > 0 })
}

// Checking batches, looking up times and compacting reserve memory from the budget, and give it
// back.
func TestDecompressionDrawsFromTheBudget(t *testing.T) {
	for _, c := range []recordbatch.Codec{recordbatch.Gzip, recordbatch.Snappy, recordbatch.LZ4, recordbatch.Zstd} {
		t.Run(c.String(), func(t *testing.T) {
			memory := budget.New("decompression", 64<<20)
			compacted := bombed(t, memory, c)
			full := memory.Hold()
			full.Take(64 << 20)
			err := starved(t, memory, func(ctx context.Context) error {
				_, _, err := compacted.OffsetForTime(ctx, 0, time.UnixMilli(1003))
				return err
			})
			if !errors.Is(err, mainstem.ErrUnavailable) {
				t.Errorf("a time was looked for without memory: %v", err)
			}
			if err := starved(t, memory, compacted.Compact); err == nil {
				t.Error("compacted without memory")
			}
			full.Release()
			if f, ok, err := compacted.OffsetForTime(t.Context(), 0, time.UnixMilli(1003)); f.Offset != 3 || !ok || err != nil {
				t.Errorf("offset %d, %t: %v", f.Offset, ok, err)
			}
			if err := compacted.Compact(t.Context()); err != nil {
				t.Error(err)
			}
			if s := memory.Stats()[0]; s.Used != 0 || s.Waited == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// The context of Append ends its wait for memory.
func TestAppendWaitsUntilItsContextEnds(t *testing.T) {
	memory := budget.New("decompression", 64<<20)
	compacted := bombed(t, memory, recordbatch.Zstd)
	full := memory.Hold()
	full.Take(64 << 20)
	defer full.Release()
	err := starved(t, memory, func(ctx context.Context) error {
		_, err := compacted.Append(ctx, 0, bomb(t, "k", recordbatch.Zstd))
		return err
	})
	if !errors.Is(err, mainstem.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("appended without memory: %v, want Unavailable because the context was canceled", err)
	}
}

// Consumers, too, reserve the memory of the batch whose records they yield from the budget.
func TestConsumersDrawFromTheBudget(t *testing.T) {
	memory := budget.New("decompression", bombSize+bombSize/2)
	bombs := bombed(t, memory, recordbatch.Zstd)
	read := func(ctx context.Context) (n int, err error) {
		for _, err := range bombs.Consume(ctx, nil) {
			if err != nil {
				return n, err
			}
			if n++; n == 1 {
				if used := memory.Stats()[0].Used; used < bombSize {
					t.Errorf("a consumer of %d bytes counts as %d", bombSize, used)
				}
			}
		}
		return n, nil
	}
	for _, err := range bombs.Consume(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		err := starved(t, memory, func(ctx context.Context) error {
			_, err := read(ctx)
			return err
		})
		if !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("two consumers had memory for one: %v", err)
		}
		break
	}
	if n, err := read(t.Context()); n != 32 || err != nil {
		t.Errorf("%d records: %v", n, err)
	}
	if used := memory.Stats()[0].Used; used != 0 {
		t.Errorf("%d bytes are used", used)
	}
}

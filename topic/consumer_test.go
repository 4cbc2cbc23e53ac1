package topic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

func TestConsumeFrom(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		tp := create(t, c, "x", Spec{Partitions: 2})
		for i := range int64(4) {
			mustAppend(t, tp, 0, batch(Zstd, rec{ms: 10 * i, value: "v"}, rec{ms: 10*i + 5, value: "v"}))
		}
		mustAppend(t, tp, 1, batch(0, rec{ms: 1, value: "v"}))
		if err := tp.Offsets("g").Commit(t.Context(), 0, 7); err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			name     string
			o        *ConsumeOptions
			from0, n int64 // first offset of partition 0, and how many of partition 1
		}{
			{"nothing said", nil, 0, 1},
			{"start", &ConsumeOptions{From: FromStart()}, 0, 1},
			{"end", &ConsumeOptions{From: FromEnd()}, 8, 0},
			{"time", &ConsumeOptions{From: FromTime(time.UnixMilli(11))}, 3, 0},
			{"time between milliseconds", &ConsumeOptions{From: FromTime(time.UnixMicro(10001))}, 3, 0},
			{"offsets", &ConsumeOptions{From: FromOffsets(map[int32]int64{0: 5})}, 5, 1},
			{"group", &ConsumeOptions{From: FromGroup("g", FromEnd())}, 7, 0},
			{"group within a group", &ConsumeOptions{From: FromGroup("none", FromGroup("g", FromStart()))}, 7, 1},
			{"one partition", &ConsumeOptions{Partitions: []int32{0}, MaxBytes: 1}, 0, 0},
		} {
			got := all(t, tp, x.o)
			if int64(len(got[0])) != 8-x.from0 || int64(len(got[1])) != x.n {
				t.Errorf("%s: %d and %d records, want %d and %d", x.name, len(got[0]), len(got[1]), 8-x.from0, x.n)
			}
			for i, r := range got[0] {
				if o := x.from0 + int64(i); r.Offset != o || r.Time.UnixMilli() != 5*o {
					t.Errorf("%s: record %d is %v", x.name, i, r)
				}
			}
		}
		for _, o := range []*ConsumeOptions{{From: FromOffsets(map[int32]int64{0: 9})}, {Partitions: []int32{2}}, {From: FromGroup("", FromStart())}} {
			var last error
			for _, last = range tp.Consume(t.Context(), o) {
			}
			if last == nil {
				t.Errorf("%+v: no error", o)
			}
		}
	})
}

// With Follow a consumer gets the records that are there and those that come later, also from
// partitions that are added later.
func TestConsumeFollow(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		tp := create(t, c, "x", Spec{Partitions: 2})
		mustAppend(t, tp, 0, batch(0, rec{value: "0"}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := make(chan string)
		done := make(chan error)
		go func() {
			var last error
			for r, err := range tp.Consume(ctx, &ConsumeOptions{Follow: true}) {
				if last = err; err == nil {
					got <- fmt.Sprintf("%d/%d %s", r.Partition, r.Offset, r.Value)
				}
			}
			done <- last
		}()
		want := func(s string) {
			t.Helper()
			if g := <-got; g != s {
				t.Errorf("got %s, want %s", g, s)
			}
		}
		want("0/0 0")
		for i := range 20 {
			v := fmt.Sprint(i)
			mustAppend(t, tp, int32(i%2), batch(LZ4, rec{value: v}))
			want(fmt.Sprintf("%d/%d %s", i%2, i/2+1-i%2, v))
		}
		if err := c.AddPartitions(t.Context(), "x", 4); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, tp, 3, batch(0, rec{value: "new"}))
		want("3/0 new")
		mustAppend(t, tp, 3, batch(0, rec{value: "newer"}))
		want("3/1 newer")
		cancel()
		if err := <-done; !errors.Is(err, mainstem.ErrCanceled) {
			t.Errorf("a cancelled consumer ends with %v", err)
		}
	})
}

// If retention has removed the record that a consumer reads next, the consumer gets an error, or
// continues with SkipLost.
func TestConsumeLost(t *testing.T) {
	c := open(t, testengines.Memory(t), nil)
	tp := create(t, c, "x", Spec{})
	for range 6 {
		mustAppend(t, tp, 0, batch(0, rec{value: "v"}))
	}
	for _, skip := range []bool{false, true} {
		var offsets []int64
		var last error
		for r, err := range tp.Consume(t.Context(), &ConsumeOptions{MaxBytes: 1, SkipLost: skip, From: FromOffsets(map[int32]int64{0: 1})}) {
			if last = err; err != nil {
				break
			}
			if offsets = append(offsets, r.Offset); len(offsets) == 1 {
				if _, err := tp.DeleteRecords(t.Context(), 0, 4); err != nil {
					t.Fatal(err)
				}
			}
		}
		out := new(OutOfRangeError)
		switch {
		case skip && (last != nil || !slices.Equal(offsets, []int64{4, 5})):
			t.Errorf("skipping: %v, %v", offsets, last)
		case !skip && (!errors.As(last, &out) || out.Start != 4 || len(offsets) != 1):
			t.Errorf("not skipping: %v, %v", offsets, last)
		}
	}
}

func TestOffsets(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		x, y := create(t, c, "x", Spec{Partitions: 300}), create(t, c, "xy", Spec{})
		if got, err := x.Offsets("g").Load(t.Context()); len(got) != 0 || err != nil {
			t.Errorf("before any: %v, %v", got, err)
		}
		// Two pairs of names that are equal when they are concatenated.
		for group, tp := range map[string]*Topic{"g": x, "gx": y} {
			if err := tp.Offsets(group).Commit(t.Context(), 0, int64(len(group))); err != nil {
				t.Fatal(err)
			}
		}
		b := mainstem.NewBatch()
		g := x.Offsets("g")
		g.CommitTo(b, 299, 7)
		g.CommitOffsetTo(b, 5, Offset{Next: 9, LeaderEpoch: 3, Metadata: "m"})
		b.Put(partition.GroupSpace, []byte("other"), []byte("something of the coordinator"))
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		got, err := x.Offsets("g").Load(t.Context())
		want := map[int32]Offset{0: {Next: 1, LeaderEpoch: -1}, 5: {Next: 9, LeaderEpoch: 3, Metadata: "m"}, 299: {Next: 7, LeaderEpoch: -1}}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("loaded %v, %v; want %v", got, err, want)
		}
		b = mainstem.NewBatch()
		g.ForgetTo(b, 5)
		g.ForgetTo(b, 6)
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if got, err := g.Load(t.Context()); err != nil || len(got) != 2 {
			t.Errorf("after forgetting one: %v, %v", got, err)
		}
		for what, bad := range map[string]func(*mainstem.Batch){
			"negative":  func(b *mainstem.Batch) { g.CommitTo(b, 0, -1) },
			"partition": func(b *mainstem.Batch) { g.CommitTo(b, 300, 1) },
			"metadata": func(b *mainstem.Batch) {
				g.CommitOffsetTo(b, 0, Offset{Metadata: string(make([]byte, partition.MaxOffsetMetadata+1))})
			},
			"group":     func(b *mainstem.Batch) { x.Offsets("").CommitTo(b, 0, 1) },
			"group too": func(b *mainstem.Batch) { x.Offsets(string(make([]byte, partition.MaxGroup+1))).ForgetTo(b, 0) },
		} {
			b := mainstem.NewBatch()
			bad(b)
			if _, err := log.Commit(t.Context(), b); !errors.Is(err, mainstem.ErrInvalid) && !errors.Is(err, mainstem.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// Consuming, transforming and committing the offset are one commit. However often the worker
// crashes between any two steps, each record is processed exactly once.
func TestExactlyOnce(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		in, out := create(t, c, "in", Spec{Partitions: 2}), create(t, c, "out", Spec{})
		for i := range 40 {
			mustAppend(t, in, int32(i%2), batch(0, rec{key: "k", value: fmt.Sprint(i)}))
		}
		offsets := in.Offsets("worker")
		for worker := 0; worker < 20; worker++ {
			n := 0
			for r, err := range in.Consume(t.Context(), &ConsumeOptions{From: FromGroup("worker", FromStart())}) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n > 1+worker%4 {
					break // it dies having read, before it commits
				}
				b := mainstem.NewBatch()
				out.PublishTo(b, Record{Value: r.Value})
				offsets.CommitTo(b, r.Partition, r.Offset+1)
				if _, err := log.Commit(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
		}
		seen := map[string]int{}
		for _, r := range all(t, out, nil)[0] {
			seen[string(r.Value)]++
		}
		for i := range 40 {
			if seen[fmt.Sprint(i)] != 1 {
				t.Errorf("record %d was processed %d times", i, seen[fmt.Sprint(i)])
			}
		}
	})
}

// Bytes behind a batch that are too few for another one are Corrupt.
func TestConsumeOfBytesBehindABatch(t *testing.T) {
	tp := create(t, open(t, testengines.Memory(t), nil), "x", Spec{})
	marker := recordbatch.Marker{}.Batch()
	for n := range recordbatch.HeaderSize {
		c, cur := consumer{t: tp}, cursor{until: math.MaxInt64}
		err := c.consume(t.Context(), &cur, append(slices.Clone(marker), make([]byte, n)...), func(Record) bool { return true })
		if n == 0 && err != nil || n > 0 && !errors.Is(err, mainstem.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

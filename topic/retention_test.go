package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// held is a batch of the retention model.
type held struct {
	base, next, bytes, ms int64
	times                 []int64
}

// retentionModel is one partition: what should be there.
type retentionModel struct {
	start   int64
	batches []held
}

func (m *retentionModel) end() int64 {
	if n := len(m.batches); n > 0 {
		return m.batches[n-1].next
	}
	return m.start
}

func (m *retentionModel) size() (n int64) {
	for _, b := range m.batches {
		n += b.bytes
	}
	return n
}

func (m *retentionModel) cut(start int64) {
	m.start = max(m.start, start)
	m.batches = slices.DeleteFunc(m.batches, func(b held) bool { return b.next <= m.start })
}

func (m *retentionModel) retain(now, ms, bytes int64) {
	for len(m.batches) > 0 {
		b := m.batches[0]
		if !(ms >= 0 && b.ms < now-ms) && !(bytes >= 0 && m.size()-b.bytes >= bytes) {
			return
		}
		m.cut(b.next)
	}
}

func (m *retentionModel) firstAt(ms int64) (int64, int64) {
	for _, b := range m.batches {
		for i, at := range b.times {
			if o := b.base + int64(i); o >= m.start && at >= ms {
				return o, at
			}
		}
	}
	return -1, 0
}

func (m *retentionModel) newest() (offset, ms int64) {
	offset, ms = -1, -1
	for _, b := range m.batches {
		for i, at := range b.times {
			if o := b.base + int64(i); o >= m.start && at > ms {
				offset, ms = o, at
			}
		}
	}
	return offset, ms
}

// Appends, retention by time and size, DeleteRecords, restarts and lookups by time
// agree with a model, with small extents so that every boundary is met.
func TestRetentionAgreesWithModel(t *testing.T) {
	eachProgram(t, func(t *rapid.T, log mainstem.Log) {
		ctx := context.Background()
		ck := newClock()
		reopen := func() (*Catalog, *Topic) {
			c, err := Open(log, &Options{Every: -1, Now: ck.Now})
			if err != nil {
				t.Fatal(err)
			}
			c.extents = extentLimits{bytes: 400, batches: 4}
			tp, err := c.Ensure(ctx, "x", Spec{Config: Config{RetentionMs: "-1"}})
			if err != nil {
				t.Fatal(err)
			}
			return c, tp
		}
		c, tp := reopen()
		defer func() { c.Close() }()
		m := retentionModel{}
		retentionMs, retentionBytes := int64(-1), int64(-1)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				var rs []rec
				b := held{base: m.end(), ms: -1}
				for range rapid.IntRange(1, 4).Draw(t, "records") {
					ms := ck.Now().UnixMilli() - rapid.Int64Range(0, 5000).Draw(t, "age")
					rs = append(rs, rec{ms: ms, value: strings.Repeat("x", rapid.IntRange(0, 60).Draw(t, "size"))})
					b.times, b.ms = append(b.times, ms), max(b.ms, ms)
				}
				data := batch(rapid.SampledFrom([]Codec{Uncompressed, LZ4}).Draw(t, "codec"), rs...)
				b.next, b.bytes = b.base+int64(len(rs)), int64(len(data))
				a, err := tp.Append(ctx, 0, data)
				if err != nil || a.Base != b.base || a.Next != b.next {
					t.Fatalf("appended %+v, %v; want base %d", a, err, b.base)
				}
				m.batches = append(m.batches, b)
			},
			"wait": func(t *rapid.T) {
				ck.add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"configure": func(t *rapid.T) {
				retentionMs = rapid.SampledFrom([]int64{-1, 0, 1000, 4000}).Draw(t, "retention.ms")
				retentionBytes = rapid.SampledFrom([]int64{-1, -1, 0, 500, 2000}).Draw(t, "retention.bytes")
				err := c.Alter(ctx, "x", func(cfg Config) error {
					cfg[RetentionMs], cfg[RetentionBytes] = fmt.Sprint(retentionMs), fmt.Sprint(retentionBytes)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			},
			"upkeep": func(t *rapid.T) {
				if err := c.Upkeep(ctx); err != nil {
					t.Fatal(err)
				}
				m.retain(ck.Now().UnixMilli(), retentionMs, retentionBytes)
			},
			"delete records": func(t *rapid.T) {
				before := rapid.Int64Range(0, m.end()+1).Draw(t, "before")
				start, err := tp.DeleteRecords(ctx, 0, before)
				if before > m.end() {
					if out := new(OutOfRangeError); !errors.As(err, &out) {
						t.Fatalf("beyond the end: %v", err)
					}
					return
				}
				m.cut(before)
				if err != nil || start != m.start {
					t.Fatalf("start %d, %v; want %d", start, err, m.start)
				}
			},
			"restart": func(*rapid.T) {
				c.Close()
				c, tp = reopen()
			},
			"lookup": func(t *rapid.T) {
				ms := ck.Now().UnixMilli() - rapid.Int64Range(-100, 9000).Draw(t, "age")
				f, ok, err := tp.OffsetForTime(ctx, 0, time.UnixMilli(ms))
				if offset, at := m.firstAt(ms); err != nil || ok != (offset >= 0) || ok && (f.Offset != offset || f.Time.UnixMilli() != at) {
					t.Fatalf("first at %d: %+v, %v, %v; want offset %d at %d", ms, f, ok, err, offset, at)
				}
				f, ok, err = tp.MaxTimestamp(ctx, 0)
				if offset, at := m.newest(); err != nil || ok != (offset >= 0) || ok && (f.Offset != offset || f.Time.UnixMilli() != at) {
					t.Fatalf("newest: %+v, %v, %v; want offset %d at %d", f, ok, err, offset, at)
				}
			},
			"": func(t *rapid.T) {
				d, err := c.Describe(ctx, "x")
				want := PartitionInfo{Start: m.start, End: m.end(), Bytes: m.size()}
				if err != nil || d.Partitions[0] != want {
					t.Fatalf("partition %+v, %v; want %+v", d.Partitions, err, want)
				}
				offset := m.start
				for r, err := range tp.Consume(ctx, nil) {
					if err != nil || r.Offset != offset {
						t.Fatalf("consumed %v, %v; want offset %d", r, err, offset)
					}
					offset++
				}
				if offset != m.end() {
					t.Fatalf("consumed up to %d, want %d", offset, m.end())
				}
				stored := 0
				for range log.Read(ctx, Space("x"), partitionKey(0), mainstem.Versions{}) {
					stored++
				}
				if stored != len(m.batches) {
					t.Fatalf("the log holds %d batches, want %d", stored, len(m.batches))
				}
			},
		})
	})
}

// Records without timestamps are as old as their commit.
func TestRetentionWithoutTimestamps(t *testing.T) {
	ck := newClock()
	log := model.New(&model.Options{Now: ck.Now})
	defer log.Close()
	c := open(t, log, &Options{Now: ck.Now})
	tp := create(t, c, "x", Spec{Config: Config{RetentionMs: "1000"}})
	mustAppend(t, tp, 0, batch(0, rec{ms: recordbatch.NoTimestamp, value: "v"}))
	for range 2 {
		if err := c.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if start, err := tp.Start(t.Context(), 0); start != 0 || err != nil {
			t.Fatalf("start %d, %v", start, err)
		}
		ck.add(time.Second)
	}
	ck.add(time.Millisecond)
	if err := c.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if start, err := tp.Start(t.Context(), 0); start != 1 || err != nil {
		t.Errorf("start %d, %v; want 1", start, err)
	}
	if _, ok, err := tp.MaxTimestamp(t.Context(), 0); ok || err != nil {
		t.Errorf("an empty partition has a newest timestamp: %v", err)
	}
}

func TestDeleteRecordsRefuses(t *testing.T) {
	c := open(t, testengines.Memory(t), nil)
	tp := create(t, c, "x", Spec{Config: Config{CleanupPolicy: "compact"}})
	if _, err := tp.DeleteRecords(t.Context(), 0, 0); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), CleanupPolicy) {
		t.Errorf("from a compacted topic: %v", err)
	}
	if _, err := tp.DeleteRecords(t.Context(), 1, 0); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("from partition 1 of 1: %v", err)
	}
	if err := tp.Compact(t.Context()); err != nil {
		t.Errorf("compacting nothing: %v", err)
	}
}

// A removal that was cut short after its first step is finished by upkeep, and
// nobody sees the records meanwhile.
func TestRemovalIsFinishedLater(t *testing.T) {
	eachLog(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		c.extents = extentLimits{bytes: 100, batches: 2}
		tp := create(t, c, "x", Spec{Config: Config{RetentionMs: "-1"}})
		for range 20 {
			mustAppend(t, tp, 0, batch(0, rec{value: "v"}))
		}
		p := tp.now().parts[0]
		if err := p.catchUp(t.Context(), 20); err != nil {
			t.Fatal(err)
		}
		if more, err := p.trimStep(t.Context(), 15, mainstem.OS); !more || err != nil {
			t.Fatalf("one step removes everything: %v, %v", more, err)
		}
		again := open(t, log, nil)
		tp, err := again.Topic(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tp.Read(t.Context(), 0, 14, nil); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("reading what was deleted: %v", err)
		}
		if err := again.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		for range log.Read(t.Context(), Space("x"), partitionKey(0), mainstem.Versions{}) {
			n++
		}
		if n != 5 {
			t.Errorf("%d batches are left, want 5", n)
		}
	})
}

// Two catalogs may look after the same topics at once.
func TestUpkeepByTwo(t *testing.T) {
	log := testengines.Memory(t)
	ck := newClock()
	cs := []*Catalog{open(t, log, &Options{Now: ck.Now}), open(t, log, &Options{Now: ck.Now})}
	tp := create(t, cs[0], "x", Spec{Config: Config{CleanupPolicy: "compact,delete", RetentionMs: "100", MinDirtyRatio: "0"}})
	for _, c := range cs {
		c.extents = extentLimits{bytes: 200, batches: 3}
	}
	done := make(chan error, 2)
	for _, c := range cs {
		go func() {
			var err error
			for range 50 {
				err = errors.Join(err, c.Upkeep(t.Context()))
			}
			done <- err
		}()
	}
	for i := range 500 {
		mustAppend(t, tp, 0, batch(0, rec{ms: ck.Now().UnixMilli(), key: strconv.Itoa(i % 7), value: "v"}))
		ck.add(time.Millisecond)
	}
	for range cs {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for _, c := range cs {
		if err := c.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d, err := cs[1].Describe(t.Context(), "x")
	if err != nil || d.Partitions[0].Start < 399 || d.Partitions[0].End != 500 {
		t.Errorf("%+v, %v", d, err)
	}
	if got := all(t, tp, nil)[0]; len(got) != 8 || got[7].Offset != 499 { // the newest batch is not compacted
		t.Errorf("%d records are left of 7 keys: %v", len(got), got)
	}
}

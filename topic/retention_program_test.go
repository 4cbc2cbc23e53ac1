package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// held is a batch of the retention model.
type held struct {
	base, next, bytes, ms int64
	times                 []int64
}

// retentionModel is the expected state of one partition.
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

// Appends, retention by time and size, DeleteRecords, restarts, failing commits and lookups by time
// agree with a model. Extents are small, so that the programs reach every boundary.
func TestRetentionAgreesWithModel(t *testing.T) {
	eachProgram(t, func(t *rapid.T, log *failing) {
		p := &retentionProgram{log: log, clock: &testkit.Clock{}, ms: -1, bytes: -1}
		p.open(t)
		defer func() { p.c.Close() }()
		t.Repeat(rapid.StateMachineActions(p))
	})
}

// retentionProgram runs random steps on a topic and on its model.
type retentionProgram struct {
	log       *failing
	clock     *testkit.Clock
	c         *Catalog
	t         *Topic
	m         retentionModel
	ms, bytes int64 // the retention configured
}

func (p *retentionProgram) open(t *rapid.T) {
	var err error
	if p.c, err = Open(p.log, &Options{Every: -1, Now: p.clock.Now}); err != nil {
		t.Fatal(err)
	}
	p.c.extents = extentLimits{bytes: 400, batches: 4}
	if p.t, err = p.c.Ensure(context.Background(), "x", Spec{Config: Config{RetentionMs: fmt.Sprint(p.ms)}}); err != nil {
		t.Fatal(err)
	}
}

func (p *retentionProgram) Append(t *rapid.T) {
	var rs []rec
	b := held{base: p.m.end(), ms: -1}
	for range rapid.IntRange(1, 4).Draw(t, "records") {
		ms := p.clock.Now().UnixMilli() - rapid.Int64Range(0, 5000).Draw(t, "age")
		rs = append(rs, rec{ms: ms, value: strings.Repeat("x", rapid.IntRange(0, 60).Draw(t, "size"))})
		b.times, b.ms = append(b.times, ms), max(b.ms, ms)
	}
	data := batch(rapid.SampledFrom([]Codec{Uncompressed, LZ4}).Draw(t, "codec"), rs...)
	b.next, b.bytes = b.base+int64(len(rs)), int64(len(data))
	a, err := p.t.Append(context.Background(), 0, data)
	if err != nil || a.Base != b.base || a.Next != b.next {
		t.Fatalf("appended %+v, %v; want base %d", a, err, b.base)
	}
	p.m.batches = append(p.m.batches, b)
}

func (p *retentionProgram) Wait(t *rapid.T) {
	p.clock.Advance(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
}

func (p *retentionProgram) Configure(t *rapid.T) {
	p.ms = rapid.SampledFrom([]int64{-1, 0, 1000, 4000}).Draw(t, RetentionMs)
	p.bytes = rapid.SampledFrom([]int64{-1, -1, 0, 500, 2000}).Draw(t, RetentionBytes)
	err := p.c.Alter(context.Background(), "x", func(cfg Config) error {
		cfg[RetentionMs], cfg[RetentionBytes] = fmt.Sprint(p.ms), fmt.Sprint(p.bytes)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *retentionProgram) Upkeep(t *rapid.T) {
	upkeep := func() error { return p.c.Upkeep(context.Background()) }
	if p.log.mayFail(t, upkeep) {
		if rapid.Bool().Draw(t, "restart") {
			p.Restart(t)
		}
		if err := upkeep(); err != nil {
			t.Fatal(err)
		}
	}
	p.m.retain(p.clock.Now().UnixMilli(), p.ms, p.bytes)
}

func (p *retentionProgram) DeleteRecords(t *rapid.T) {
	before := rapid.Int64Range(0, p.m.end()+1).Draw(t, "before")
	var start int64
	var err error
	again := p.log.mayFail(t, func() error {
		if start, err = p.t.DeleteRecords(context.Background(), 0, before); errors.Is(err, mainstem.ErrInvalid) {
			return nil
		}
		return err
	})
	if again {
		start, err = p.t.DeleteRecords(context.Background(), 0, before)
	}
	if before > p.m.end() {
		if out := new(OutOfRangeError); !errors.As(err, &out) {
			t.Fatalf("beyond the end: %v", err)
		}
		return
	}
	p.m.cut(before)
	if err != nil || start != p.m.start {
		t.Fatalf("start %d, %v; want %d", start, err, p.m.start)
	}
}

func (p *retentionProgram) Restart(t *rapid.T) {
	p.c.Close()
	p.open(t)
}

func (p *retentionProgram) Lookup(t *rapid.T) {
	ms := p.clock.Now().UnixMilli() - rapid.Int64Range(-100, 9000).Draw(t, "age")
	f, ok, err := p.t.OffsetForTime(context.Background(), 0, time.UnixMilli(ms))
	if offset, at := p.m.firstAt(ms); err != nil || ok != (offset >= 0) || ok && (f.Offset != offset || f.Time.UnixMilli() != at) {
		t.Fatalf("first at %d: %+v, %v, %v; want offset %d at %d", ms, f, ok, err, offset, at)
	}
	f, ok, err = p.t.MaxTimestamp(context.Background(), 0)
	if offset, at := p.m.newest(); err != nil || ok != (offset >= 0) || ok && (f.Offset != offset || f.Time.UnixMilli() != at) {
		t.Fatalf("newest: %+v, %v, %v; want offset %d at %d", f, ok, err, offset, at)
	}
}

// Check compares the partition with the model.
func (p *retentionProgram) Check(t *rapid.T) {
	ctx := context.Background()
	d, err := p.c.Describe(ctx, "x")
	want := PartitionInfo{Start: p.m.start, End: p.m.end(), Bytes: p.m.size()}
	if err != nil || d.Partitions[0] != want {
		t.Fatalf("partition %+v, %v; want %+v", d.Partitions, err, want)
	}
	offset := p.m.start
	for r, err := range p.t.Consume(ctx, nil) {
		if err != nil || r.Offset != offset {
			t.Fatalf("consumed %v, %v; want offset %d", r, err, offset)
		}
		offset++
	}
	if offset != p.m.end() {
		t.Fatalf("consumed up to %d, want %d", offset, p.m.end())
	}
	stored := 0
	for range p.log.Read(ctx, Space("x"), partition.Key(0), mainstem.Versions{}) {
		stored++
	}
	if stored != len(p.m.batches) {
		t.Fatalf("the log holds %d batches, want %d", stored, len(p.m.batches))
	}
}

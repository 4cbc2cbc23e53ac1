package topic

import (
	"context"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Random programs of appends, compactions that fail or not, and restarts, with little memory and
// small extents. At any time the newest value of every key is there, at its offset; no offset
// changes; no record is there that was not written. After the last compaction each key is there
// once, below the newest batch.
func TestCompactionAgreesWithModel(t *testing.T) {
	eachProgram(t, func(t *rapid.T, log *failing) {
		p := &compactionProgram{log: log, clock: &testkit.Clock{}, newest: map[string]int64{}}
		p.open(t)
		defer func() { p.c.Close() }()
		t.Repeat(rapid.StateMachineActions(p))
	})
}

// compactionProgram runs random steps on a compacted topic and keeps all records that were written.
type compactionProgram struct {
	log     *failing
	clock   *testkit.Clock
	c       *Catalog
	t       *Topic
	written []Record         // by offset
	newest  map[string]int64 // offset by key
	start   int64
}

func (p *compactionProgram) open(t *rapid.T) {
	var err error
	if p.c, err = Open(p.log, &Options{Every: -1, Now: p.clock.Now}); err != nil {
		t.Fatal(err)
	}
	p.c.o.CompactionBytes = rapid.SampledFrom([]int{8 * slotBytes, 20 * slotBytes, MinCompactionBytes}).Draw(t, "memory")
	p.c.extents = extentLimits{bytes: 500, batches: 3}
	p.t, err = p.c.Ensure(context.Background(), "x", Spec{Config: Config{
		CleanupPolicy: "compact,delete", RetentionMs: "-1", DeleteRetention: "1000", MinDirtyRatio: "0.3",
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *compactionProgram) Append(t *rapid.T) {
	var rs []rec
	for range rapid.IntRange(1, 6).Draw(t, "records") {
		n := len(p.written)
		r := rec{ms: p.clock.Now().UnixMilli() - int64(n%3), key: strconv.Itoa(rapid.IntRange(0, 12).Draw(t, "key")), value: strconv.Itoa(n)}
		r.null = rapid.IntRange(0, 4).Draw(t, "null") == 0
		w := Record{Key: []byte(r.key), Value: []byte(r.value), Time: time.UnixMilli(r.ms)}
		if r.null {
			w.Value = nil
		}
		rs = append(rs, r)
		p.newest[r.key] = int64(n)
		p.written = append(p.written, w)
	}
	codec := rapid.SampledFrom([]Codec{Uncompressed, Zstd}).Draw(t, "codec")
	if _, err := p.t.Append(context.Background(), 0, batch(codec, rs...)); err != nil {
		t.Fatal(err)
	}
}

func (p *compactionProgram) Compact(t *rapid.T) {
	compact := func() error { return p.t.Compact(context.Background()) }
	if p.log.mayFail(t, compact) {
		p.checkRecords(t)
		if rapid.Bool().Draw(t, "restart") {
			p.Restart(t)
		}
		if err := compact(); err != nil {
			t.Fatal(err)
		}
	}
	head := p.newestBatch(t)
	once := map[string]bool{}
	for r, err := range p.t.Consume(context.Background(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset < head && once[string(r.Key)] {
			t.Fatalf("key %s is there twice after compaction", r.Key)
		}
		once[string(r.Key)] = true
	}
}

// newestBatch returns the base offset of the newest batch.
func (p *compactionProgram) newestBatch(t *rapid.T) (base int64) {
	chunk, err := p.t.Read(context.Background(), 0, p.start, nil)
	if err != nil {
		t.Fatal(err)
	}
	for data := chunk.Data; len(data) > 0; {
		var h recordbatch.Batch
		if err := h.ReadFrom(data); err != nil {
			t.Fatal(err)
		}
		base = h.FirstOffset
		data = data[12+h.Length:]
	}
	return base
}

func (p *compactionProgram) Upkeep(t *rapid.T) {
	p.log.mayFail(t, func() error { return p.c.Upkeep(context.Background()) })
}

func (p *compactionProgram) DeleteRecords(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		return
	}
	before := rapid.Int64Range(0, int64(len(p.written))).Draw(t, "before")
	if _, err := p.t.DeleteRecords(context.Background(), 0, before); err != nil {
		t.Fatal(err)
	}
	p.start = max(p.start, before)
}

func (p *compactionProgram) Wait(t *rapid.T) {
	p.clock.Advance(time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond)
}

func (p *compactionProgram) Restart(t *rapid.T) {
	p.c.Close()
	p.open(t)
}

// Check compares the stored records with those that were written.
func (p *compactionProgram) Check(t *rapid.T) {
	p.checkRecords(t)
	p.checkIndex(t)
	p.checkLookup(t)
}

func (p *compactionProgram) checkRecords(t *rapid.T) {
	seen := map[string]int64{}
	last := int64(-1)
	for r, err := range p.t.Consume(context.Background(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		w := p.written[r.Offset]
		w.Offset = r.Offset
		if r.Offset <= last || line(r) != line(w) || !r.Time.Equal(w.Time) {
			t.Fatalf("consumed %s at %v, want %s at %v", line(r), r.Time, line(w), w.Time)
		}
		last = r.Offset
		seen[string(r.Key)] = r.Offset
	}
	for key, offset := range p.newest {
		at, ok := seen[key]
		switch {
		case !ok && p.written[offset].Value != nil && offset >= p.start:
			t.Fatalf("the newest %s, at %d, is not there", key, offset)
		case ok && at != offset:
			t.Fatalf("the last %s is at %d: the newest is at %d", key, at, offset)
		}
	}
}

func (p *compactionProgram) checkIndex(t *rapid.T) {
	d, err := p.c.Describe(context.Background(), "x")
	held := int64(0)
	for r := range p.log.Read(context.Background(), Space("x"), partition.Key(0), mainstem.Versions{}) {
		held += int64(len(r.Value))
	}
	if want := (PartitionInfo{p.start, int64(len(p.written)), held}); err != nil || d.Partitions[0] != want {
		t.Fatalf("described %+v, %v; want %+v", d.Partitions, err, want)
	}
}

func (p *compactionProgram) checkLookup(t *rapid.T) {
	ctx, at := context.Background(), p.clock.Now().Add(-time.Second)
	f, ok, err := p.t.OffsetForTime(ctx, 0, at)
	if err != nil {
		t.Fatal(err)
	}
	for r := range p.t.Consume(ctx, nil) {
		if !r.Time.Before(at) {
			if !ok || f.Offset != r.Offset {
				t.Fatalf("first at %v is %+v, %v; want %d", at, f, ok, r.Offset)
			}
			return
		}
	}
	if ok {
		t.Fatalf("first at %v is %+v, but there is none", at, f)
	}
}

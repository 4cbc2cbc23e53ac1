package topic

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// compacted returns the records of a partition as "offset key=value", with "-" for null.
func compacted(t testing.TB, tp *Topic) (out []string) {
	t.Helper()
	for _, r := range all(t, tp, nil)[0] {
		out = append(out, line(r))
	}
	return out
}

func line(r Record) string {
	if r.Value == nil {
		return fmt.Sprintf("%d %s=-", r.Offset, r.Key)
	}
	return fmt.Sprintf("%d %s=%s", r.Offset, r.Key, r.Value)
}

func mustCompact(t testing.TB, tp *Topic) {
	t.Helper()
	if err := tp.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantRecords(t testing.TB, tp *Topic, want ...string) {
	t.Helper()
	if got := compacted(t, tp); !slices.Equal(got, want) {
		t.Errorf("the partition holds %v\nwant %v", got, want)
	}
}

// The newest record of each key stays at its offset. The newest batch is not changed.
func TestCompact(t *testing.T) {
	for _, codec := range []Codec{Uncompressed, Gzip, Snappy, LZ4, Zstd} {
		testengines.Each(t, func(t *testing.T, log mainstem.Log) {
			ck := &testkit.Clock{}
			now := ck.Now().UnixMilli()
			c := open(t, log, &Options{Now: ck.Now})
			tp := create(t, c, "x", Spec{Config: Config{CleanupPolicy: "compact", DeleteRetention: "1000"}})
			mustAppend(t, tp, 0, batch(codec, rec{ms: now, key: "a", value: "1"}, rec{ms: now, key: "b", value: "1"}, rec{ms: now, key: "c", value: "1"}))
			mustAppend(t, tp, 0, batch(codec, rec{ms: now, key: "a", value: "2"}))
			mustAppend(t, tp, 0, batch(codec, rec{ms: now, key: "a", value: "3"}, rec{ms: now, key: "c", null: true}))
			mustAppend(t, tp, 0, batch(codec, rec{ms: now, key: "b", value: "newest"}, rec{ms: now, key: "b", value: "newest"}))
			mustCompact(t, tp)
			wantRecords(t, tp, "1 b=1", "4 a=3", "5 c=-", "6 b=newest", "7 b=newest")
			mustCompact(t, tp) // once more changes nothing
			wantRecords(t, tp, "1 b=1", "4 a=3", "5 c=-", "6 b=newest", "7 b=newest")
			// Reading from an offset that was removed returns the next batch.
			if chunk, err := tp.Read(t.Context(), 0, 3, nil); err != nil || bases(t, chunk.Data)[0] != 4 {
				t.Errorf("%v, %v", bases(t, chunk.Data), err)
			}
			ck.Advance(999 * time.Millisecond)
			mustCompact(t, tp)
			wantRecords(t, tp, "1 b=1", "4 a=3", "5 c=-", "6 b=newest", "7 b=newest")
			ck.Advance(time.Millisecond)
			if err := c.Upkeep(t.Context()); err != nil { // nothing is dirty, but the tombstone is due
				t.Fatal(err)
			}
			wantRecords(t, tp, "1 b=1", "4 a=3", "6 b=newest", "7 b=newest")
			if end, err := tp.End(t.Context(), 0); end != 8 || err != nil {
				t.Errorf("end %d, %v", end, err)
			}
			mustAppend(t, tp, 0, batch(codec, rec{ms: now, key: "z", value: "1"}))
			mustCompact(t, tp)
			wantRecords(t, tp, "4 a=3", "7 b=newest", "8 z=1")
			d, err := c.Describe(t.Context(), "x")
			held := int64(0)
			for r := range log.Read(t.Context(), Space("x"), partition.Key(0), mainstem.Versions{}) {
				held += int64(len(r.Value))
			}
			if err != nil || d.Partitions[0].Bytes != held {
				t.Errorf("%d bytes are held, the index says %d, %v", held, d.Partitions[0].Bytes, err)
			}
		})
	}
}

// Records within the lag, and all after them, are not compacted.
func TestMinCompactionLag(t *testing.T) {
	ck := &testkit.Clock{}
	c := open(t, testengines.Memory(t), &Options{Now: ck.Now})
	tp := create(t, c, "x", Spec{Config: Config{CleanupPolicy: "compact", MinCompactionLag: "1000"}})
	for i := range 4 {
		mustAppend(t, tp, 0, batch(0, rec{ms: ck.Now().UnixMilli(), key: "k", value: strconv.Itoa(i)}))
		ck.Advance(400 * time.Millisecond)
	}
	mustCompact(t, tp) // the first is 1600 ms old, the others 1200, 800, 400
	wantRecords(t, tp, "1 k=1", "2 k=2", "3 k=3")
}

func TestCompactionIsDue(t *testing.T) {
	ck := &testkit.Clock{}
	c := open(t, testengines.Memory(t), &Options{Now: ck.Now})
	tp := create(t, c, "x", Spec{Config: Config{CleanupPolicy: "compact", MinDirtyRatio: "0.8", MaxCompactionLag: "10000"}})
	put := func(key string) {
		mustAppend(t, tp, 0, batch(0, rec{ms: ck.Now().UnixMilli(), key: key, value: "value"}))
	}
	upkeep := func() {
		t.Helper()
		if err := c.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		put(strconv.Itoa(i))
	}
	upkeep() // all of it is dirty
	put("0")
	put("z")
	upkeep() // 3 of 12 batches are dirty
	if got := compacted(t, tp); len(got) != 12 {
		t.Fatalf("compacted too early: %v", got)
	}
	ck.Advance(10001 * time.Millisecond)
	upkeep() // the lag is over
	if got := compacted(t, tp); len(got) != 11 || got[0] != "1 1=value" {
		t.Errorf("not compacted after the longest lag: %v", got)
	}
}

// txn returns a batch of a transaction.
func txn(pid int64, records ...rec) []byte {
	b := batch(0, records...)
	h, err := recordbatch.Parse(b)
	if err != nil {
		panic(err)
	}
	h.Attributes |= 1 << 4
	h.ProducerID, h.ProducerEpoch, h.FirstSequence = pid, 0, 0
	out := h.AppendTo(nil)
	sum := recordbatch.Checksum(out)
	h.CRC = int32(sum)
	return h.AppendTo(nil)
}

// Aborted records are removed and never supersede committed ones. An open transaction stops
// compaction. Markers stay.
func TestCompactTransactions(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		tp := create(t, c, "x", Spec{Config: Config{CleanupPolicy: "compact"}})
		end := func(pid int64, commit bool) {
			b := mainstem.NewBatch()
			p, err := tp.Partition(0)
			if err != nil {
				t.Fatal(err)
			}
			slot := p.AppendMarkerTo(b, recordbatch.Marker{ProducerID: pid, Commit: commit, Timestamp: 5})
			r, err := log.Commit(t.Context(), b)
			if err != nil || slot.In(r).Next != slot.In(r).Base+1 {
				t.Fatal(err)
			}
		}
		mustAppend(t, tp, 0, batch(0, rec{ms: 5, key: "a", value: "0"}, rec{ms: 5, key: "b", value: "1"})) // 0 1
		mustAppend(t, tp, 0, txn(1, rec{ms: 5, key: "a", value: "aborted"}))                               // 2
		mustAppend(t, tp, 0, txn(2, rec{ms: 5, key: "b", value: "committed"}))                             // 3
		end(1, false)                                                                                      // 4
		end(2, true)                                                                                       // 5
		mustAppend(t, tp, 0, txn(1, rec{ms: 5, key: "c", value: "open"}))                                  // 6
		mustAppend(t, tp, 0, batch(0, rec{ms: 5, key: "a", value: "2"}))                                   // 7
		mustAppend(t, tp, 0, batch(0, rec{ms: 5, key: "z", value: "1"}))                                   // 8
		mustCompact(t, tp)
		wantRecords(t, tp, "0 a=0", "3 b=committed", "6 c=open", "7 a=2", "8 z=1")
		end(1, true) // 9
		mustAppend(t, tp, 0, batch(0, rec{ms: 5, key: "z", value: "2"}))
		mustCompact(t, tp)
		wantRecords(t, tp, "3 b=committed", "6 c=open", "7 a=2", "8 z=1", "10 z=2")
		markers := 0
		for r := range log.Read(t.Context(), Space("x"), partition.Key(0), mainstem.Versions{}) {
			if h, err := recordbatch.Parse(r.Value); err == nil && h.Control() {
				markers++
			}
		}
		if markers != 3 {
			t.Errorf("%d markers are left, want 3", markers)
		}
	})
}

// In a topic that becomes compacted, records without keys are removed, and batches that cannot be
// decoded stay.
func TestCompactAfterAlter(t *testing.T) {
	c := open(t, testengines.Memory(t), nil)
	tp := create(t, c, "x", Spec{})
	garbage := batch(Gzip, rec{ms: 5, key: "k", value: "0000000000000000000000000000000000000000000000000000"}, rec{ms: 5, key: "k", value: "0000000000000000000000000000000000000"})
	clear(garbage[recordbatch.HeaderSize:])
	h, err := recordbatch.Parse(garbage)
	if err != nil || h.Codec() != Gzip {
		t.Fatal(h.Codec(), err)
	}
	h.CRC = int32(recordbatch.Checksum(garbage))
	garbage = h.AppendTo(nil)
	b := mainstem.NewBatch() // as a version that did not look into batches stored it: 0 1
	b.Add(mainstem.Write{Op: mainstem.OpPut, Space: Space("x"), Key: partition.Key(0), Value: garbage, Count: 2})
	if _, err := c.log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, tp, 0, batch(0, rec{ms: 5, value: "keyless"}, rec{ms: 5, key: "k", value: "1"})) // 2 3
	mustAppend(t, tp, 0, batch(0, rec{ms: 5, key: "z", value: "1"}))                               // 4
	if err := tp.Compact(t.Context()); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("compacting a topic that is not: %v", err)
	}
	if err := c.SetConfig(t.Context(), "x", CleanupPolicy, "compact"); err != nil {
		t.Fatal(err)
	}
	mustCompact(t, tp)
	chunk, err := tp.Read(t.Context(), 0, 0, nil)
	if err != nil || !slices.Equal(bases(t, chunk.Data), []int64{0, 2, 4}) {
		t.Errorf("batches %v, %v", bases(t, chunk.Data), err)
	}
	var got []string
	for r, err := range tp.Consume(t.Context(), &ConsumeOptions{From: FromOffsets(map[int32]int64{0: 2})}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line(r))
	}
	if !slices.Equal(got, []string{"3 k=1", "4 z=1"}) {
		t.Errorf("%v", got)
	}
}

// Consumers and producers that work during compaction see the newest value of every key, and never
// one older than they have seen.
func TestCompactionUnderLoad(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		c.extents = extentLimits{bytes: 2000, batches: 10}
		tp := create(t, c, "x", Spec{Config: Config{CleanupPolicy: "compact", DeleteRetention: "0"}})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := tp.Compact(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					seen, last := map[string]int{}, int64(-1)
					for r, err := range tp.Consume(t.Context(), nil) {
						if err != nil || r.Offset <= last {
							t.Errorf("consumed offset %d after %d: %v", r.Offset, last, err)
							return
						}
						last = r.Offset
						n, _ := strconv.Atoi(string(r.Value))
						if n < seen[string(r.Key)] {
							t.Errorf("key %s goes back from %d to %d", r.Key, seen[string(r.Key)], n)
						}
						seen[string(r.Key)] = n
					}
				}
			})
		}
		for i := range 600 {
			mustAppend(t, tp, 0, batch(Snappy, rec{ms: 5, key: strconv.Itoa(i % 10), value: strconv.Itoa(i)}, rec{ms: 5, key: "all", value: strconv.Itoa(i)}))
		}
		close(stop)
		wg.Wait()
		mustCompact(t, tp)
		if got := compacted(t, tp); len(got) > 13 {
			t.Errorf("%d records are left: %v", len(got), got)
		}
	})
}

func TestOffsetMap(t *testing.T) {
	m := newOffsetMap(100)
	for i := range 100 {
		if m.full(1) {
			t.Fatalf("full with %d of 100 keys", i)
		}
		m.put(strconv.AppendInt(nil, int64(i), 10), int64(i))
	}
	for i := range 1000 { // more than it was made for
		m.put(strconv.AppendInt(nil, int64(i), 10), int64(2*i))
	}
	for i := range 1000 {
		if got := m.newest(strconv.AppendInt(nil, int64(i), 10)); got != int64(2*i) {
			t.Errorf("key %d: %d", i, got)
		}
	}
	if got := m.newest([]byte("none")); got != -1 {
		t.Errorf("a key that is not there: %d", got)
	}
}

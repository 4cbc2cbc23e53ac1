package topic

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Read returns the bytes that franz-go's consumer expects in a fetch response.
func TestReadIsAFetchResponse(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		tp := create(t, c, "x", Spec{})
		var want []string
		for i, codec := range []Codec{Uncompressed, Gzip, Snappy, LZ4, Zstd} {
			var rs []rec
			for j := range 10 {
				r := rec{ms: int64(100*i + j), key: fmt.Sprint("key", j), value: strings.Repeat("value", 10*j)}
				want = append(want, fmt.Sprintf("%d %d %s=%s", 10*i+j, r.ms, r.key, r.value))
				rs = append(rs, r)
			}
			mustAppend(t, tp, 0, batch(codec, rs...))
		}
		chunk, err := tp.Read(t.Context(), 0, 0, &partition.ReadOptions{LeaderEpoch: 6})
		if err != nil || chunk.Next != 50 || chunk.Start != 0 || chunk.End != 50 {
			t.Fatalf("next %d, start %d, end %d, %v", chunk.Next, chunk.Start, chunk.End, err)
		}
		fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "x"},
			&kmsg.FetchResponseTopicPartition{RecordBatches: chunk.Data, HighWatermark: chunk.End}, kgo.DefaultDecompressor(), nil)
		if fp.Err != nil || next != 50 {
			t.Fatalf("franz-go: next %d, %v", next, fp.Err)
		}
		var got []string
		for _, r := range fp.Records {
			if r.LeaderEpoch != 6 {
				t.Errorf("leader epoch %d", r.LeaderEpoch)
			}
			got = append(got, fmt.Sprintf("%d %d %s=%s", r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value))
		}
		if !slices.Equal(got, want) {
			t.Errorf("franz-go reads\n%v\nwant\n%v", got, want)
		}
	})
}

// bases returns the base offsets and sizes of the batches in data.
func bases(t *testing.T, data []byte) (out []int64) {
	t.Helper()
	for len(data) > 0 {
		var h kmsg.RecordBatch
		if err := h.ReadFrom(data); err != nil {
			t.Fatal(err)
		}
		out = append(out, h.FirstOffset)
		data = data[12+h.Length:]
	}
	return out
}

func TestReadBounds(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		tp := create(t, c, "x", Spec{})
		one := batch(0, rec{value: "a"}, rec{value: "b"}, rec{value: "c"})
		for range 5 {
			mustAppend(t, tp, 0, one)
		}
		n := len(one)
		for _, x := range []struct {
			offset int64
			o      *partition.ReadOptions
			want   []int64
			next   int64
			full   bool
		}{
			{0, nil, []int64{0, 3, 6, 9, 12}, 15, false},
			{4, nil, []int64{3, 6, 9, 12}, 15, false},
			{15, nil, nil, 15, false},
			{0, &partition.ReadOptions{MaxBytes: 1}, []int64{0}, 3, true},
			{12, &partition.ReadOptions{MaxBytes: 1}, []int64{12}, 15, false},
			{0, &partition.ReadOptions{MaxFirst: 1}, nil, 0, true},
			{5, &partition.ReadOptions{MaxBytes: n}, []int64{3}, 6, true},
			{5, &partition.ReadOptions{MaxBytes: 2*n - 1}, []int64{3}, 6, true},
			{5, &partition.ReadOptions{MaxBytes: 2 * n}, []int64{3, 6}, 9, true},
			{1, &partition.ReadOptions{Before: 6}, []int64{0, 3}, 6, false},
			{1, &partition.ReadOptions{Before: 6, MaxBytes: 2 * n}, []int64{0, 3}, 6, false},
			{1, &partition.ReadOptions{Before: 7}, []int64{0, 3, 6}, 9, false},
			{6, &partition.ReadOptions{Before: 6}, nil, 6, false},
		} {
			chunk, err := tp.Read(t.Context(), 0, x.offset, x.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := bases(t, chunk.Data); !slices.Equal(got, x.want) || chunk.Next != x.next || chunk.End != 15 || chunk.Full != x.full {
				t.Errorf("from %d, %+v: batches %v, next %d, end %d, full %v; want %v, %d", x.offset, x.o, got, chunk.Next, chunk.End, chunk.Full, x.want, x.next)
			}
		}
		// The batches are appended to the buffer, whose bytes do not count for the limits.
		buf := append(make([]byte, 0, 4096), "head"...)
		chunk, err := tp.Read(t.Context(), 0, 0, &partition.ReadOptions{Buffer: buf, MaxBytes: n})
		if err != nil || !bytes.HasPrefix(chunk.Data, []byte("head")) || len(chunk.Data) != 4+n || &chunk.Data[0] != &buf[0] {
			t.Errorf("%d bytes, %v", len(chunk.Data), err)
		}
		if chunk, err := tp.Read(t.Context(), 0, 0, &partition.ReadOptions{Buffer: buf, MaxBytes: 2 * n}); err != nil || len(chunk.Data) != 4+2*n {
			t.Errorf("%d bytes, %v", len(chunk.Data), err)
		}
		for _, offset := range []int64{-1, 16, 1 << 40} {
			_, err := tp.Read(t.Context(), 0, offset, nil)
			var out *OutOfRangeError
			if !errors.Is(err, mainstem.ErrInvalid) || !errors.As(err, &out) || out.Start != 0 || out.End != 15 || out.Offset != offset {
				t.Errorf("offset %d: %v", offset, err)
			}
		}
		if _, err := tp.Read(t.Context(), 0, 0, &partition.ReadOptions{MaxBytes: -1}); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("negative bytes: %v", err)
		}
	})
}

// A handle that has read nothing yet reads the batches of another catalog, and finds the end after
// the other's retention has removed all.
func TestReadOfOthersWrites(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c, other := open(t, log, nil), open(t, log, nil)
		tp := create(t, c, "x", Spec{})
		there, err := other.Topic(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, tp, 0, batch(0, rec{value: "a"}, rec{value: "b"}))
		if chunk, err := there.Read(t.Context(), 0, 1, nil); err != nil || chunk.Next != 2 {
			t.Errorf("next %d, %v", chunk.Next, err)
		}
		mustAppend(t, tp, 0, batch(0, rec{value: "c"}))
		if _, err := tp.DeleteRecords(t.Context(), 0, ToEnd); err != nil {
			t.Fatal(err)
		}
		if end, err := there.End(t.Context(), 0); end != 3 || err != nil {
			t.Errorf("end %d, %v", end, err)
		}
		if start, err := there.Start(t.Context(), 0); start != 3 || err != nil {
			t.Errorf("start %d, %v", start, err)
		}
		if ends, err := there.Ends(t.Context()); err != nil || !slices.Equal(ends, []int64{3}) {
			t.Errorf("ends %v, %v", ends, err)
		}
	})
}

// An offset that another catalog has removed is out of range for a handle that has read it before,
// whether records follow or not.
func TestReadOfWhatOthersRemoved(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c, other := open(t, log, nil), open(t, log, nil)
		tp := create(t, c, "x", Spec{})
		for _, value := range []string{"a", "b", "c"} {
			mustAppend(t, tp, 0, batch(0, rec{value: value}))
		}
		there, err := other.Topic(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		removed := func(offset, start int64) {
			t.Helper()
			_, err := there.Read(t.Context(), 0, offset, nil)
			if out := new(OutOfRangeError); !errors.As(err, &out) || out.Offset != offset || out.Start != start {
				t.Errorf("offset %d, of which others have removed those below %d: %v", offset, start, err)
			}
		}
		for offset := range int64(3) {
			if chunk, err := there.Read(t.Context(), 0, offset, nil); err != nil || chunk.Next != 3 {
				t.Fatalf("offset %d: next %d, %v", offset, chunk.Next, err)
			}
		}
		if _, err := tp.DeleteRecords(t.Context(), 0, 2); err != nil {
			t.Fatal(err)
		}
		removed(1, 2)
		if chunk, err := there.Read(t.Context(), 0, 2, nil); err != nil || chunk.Start != 2 || chunk.Next != 3 {
			t.Errorf("start %d, next %d, %v", chunk.Start, chunk.Next, err)
		}
		if _, err := tp.DeleteRecords(t.Context(), 0, ToEnd); err != nil {
			t.Fatal(err)
		}
		removed(2, 3)
	})
}

// A stored value that is no record batch is an error, and not skipped.
func TestReadOfCorruptData(t *testing.T) {
	log := testengines.Memory(t)
	c := open(t, log, nil)
	tp := create(t, c, "x", Spec{})
	mustAppend(t, tp, 0, batch(0, rec{ms: 5, value: "a"}))
	b := mainstem.NewBatch()
	b.Put(Space("x"), partition.Key(0), []byte("short"))
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"read":     second(tp.Read(t.Context(), 0, 0, nil)),
		"upkeep":   c.Upkeep(t.Context()),
		"describe": second(c.Describe(t.Context(), "x")),
	} {
		if !errors.Is(err, mainstem.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	bad := flip(batch(0, rec{ms: 5, value: "a"}))
	b = mainstem.NewBatch()
	b.Rewrite(Space("x"), partition.Key(0), 2, bad, nil)
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	var last error
	for _, last = range tp.Consume(t.Context(), nil) {
	}
	var why *recordbatch.Error
	if !errors.Is(last, mainstem.ErrCorrupt) || !errors.As(last, &why) {
		t.Errorf("consuming a batch with a flipped bit: %v", last)
	}
}

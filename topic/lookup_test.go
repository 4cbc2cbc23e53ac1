package topic

import (
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// wantNewest expects the offset of the record with the newest timestamp.
func wantNewest(t testing.TB, tp *Topic, want int64) {
	t.Helper()
	if f, ok, err := tp.MaxTimestamp(t.Context(), 0); err != nil || !ok || f.Offset != want {
		t.Errorf("the newest timestamp is that of offset %d, %t, %v, want offset %d", f.Offset, ok, err, want)
	}
}

// A catalog without upkeep learns that another one has removed batches.
func TestIndexThatAnotherCatalogHasChanged(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		tp := create(t, open(t, log, nil), "x", Spec{})
		for _, ms := range []int64{10, 99, 30, 20} {
			mustAppend(t, tp, 0, batch(0, rec{ms: ms, value: "v"}, rec{ms: ms - 5, value: "v"}))
		}
		bytes := func() int64 {
			t.Helper()
			d, err := tp.c.Describe(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			return d.Partitions[0].Bytes
		}
		wantNewest(t, tp, 2)
		before := bytes()
		other, err := open(t, log, nil).Topic(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.DeleteRecords(t.Context(), 0, 5); err != nil {
			t.Fatal(err)
		}
		if after := bytes(); after != before/2 {
			t.Errorf("the partition has %d bytes, want half of %d", after, before)
		}
		wantNewest(t, tp, 5) // of the batch at offset 4, only the record with 25 is left
		if _, err := other.DeleteRecords(t.Context(), 0, ToEnd); err != nil {
			t.Fatal(err)
		}
		if f, ok, err := tp.MaxTimestamp(t.Context(), 0); ok || err != nil {
			t.Errorf("an empty partition has a newest timestamp at %+v: %v", f, err)
		}
	})
}

// The newest timestamp is that of a record that may be read, also while batches are being removed,
// and whatever the headers of batches say.
func TestNewestTimestampThatTheIndexDoesNotHave(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		c.extents = extentLimits{bytes: 100, batches: 2}
		tp := create(t, c, "x", Spec{Config: Config{RetentionMs: "-1"}})
		for i := range int64(20) {
			ms := i
			if i == 14 {
				ms = 99
			}
			mustAppend(t, tp, 0, batch(0, rec{ms: ms, value: "v"}))
		}
		p := tp.now().parts[0]
		if err := p.catchUp(t.Context(), 20); err != nil {
			t.Fatal(err)
		}
		if more, err := p.trimStep(t.Context(), 15, mainstem.OS); !more || err != nil {
			t.Fatalf("one step removes everything: %v, %v", more, err)
		}
		wantNewest(t, tp, 19)
		h, err := recordbatch.Parse(batch(0, rec{ms: 30, value: "v"}, rec{ms: 31, value: "v"}))
		if err != nil {
			t.Fatal(err)
		}
		h.MaxTimestamp = 1000
		h.CRC = int32(recordbatch.Checksum(h.AppendTo(nil)))
		mustAppend(t, tp, 0, h.AppendTo(nil)) // 20 21
		wantNewest(t, tp, 21)
		mustAppend(t, tp, 0, batch(0, rec{ms: 50, value: "v"}))
		wantNewest(t, tp, 22)
		// The corrected index is stored.
		if err := c.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		again, err := open(t, log, nil).Topic(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		wantNewest(t, again, 22)
		n := 0
		for range log.Read(t.Context(), Space("x"), partition.Key(0), mainstem.Versions{}) {
			n++
		}
		if n != 7 {
			t.Errorf("%d batches are left, want 7", n)
		}
	})
}

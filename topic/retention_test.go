package topic

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// The age of records without timestamps is that of their commit.
func TestRetentionWithoutTimestamps(t *testing.T) {
	ck := &testkit.Clock{}
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
		ck.Advance(time.Second)
	}
	ck.Advance(time.Millisecond)
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

// Upkeep finishes a removal that was interrupted after its first step. No reader sees the records
// meanwhile.
func TestRemovalIsFinishedLater(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
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
		for range log.Read(t.Context(), Space("x"), partition.Key(0), mainstem.Versions{}) {
			n++
		}
		if n != 5 {
			t.Errorf("%d batches are left, want 5", n)
		}
	})
}

// Two catalogs may run upkeep of the same topics at the same time.
func TestUpkeepByTwo(t *testing.T) {
	log := testengines.Memory(t)
	ck := &testkit.Clock{}
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
		ck.Advance(time.Millisecond)
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

// Retention by size counts the bytes that are left after another catalog has compacted the
// partition.
func TestRetentionAfterACompactionByAnother(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log, nil)
		c.extents = extentLimits{bytes: 300, batches: 10}
		tp := create(t, c, "x", Spec{Config: Config{CleanupPolicy: "compact,delete", RetentionMs: "-1", MinDirtyRatio: "1"}})
		mustAppend(t, tp, 0, batch(0, rec{key: "first", value: "v"}))
		for range 20 {
			mustAppend(t, tp, 0, batch(0, rec{key: "k", value: strings.Repeat("v", 100)}))
		}
		if err := c.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := open(t, log, nil)
		same, err := other.Topic(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		mustCompact(t, same)
		if err := other.SetConfig(t.Context(), "x", RetentionBytes, "1000"); err != nil {
			t.Fatal(err)
		}
		if err := c.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := compacted(t, tp); len(got) != 3 || got[0] != "0 first=v" {
			t.Errorf("the partition holds %v, want the first record and the newest two", got)
		}
		if start, err := tp.Start(t.Context(), 0); start != 0 || err != nil {
			t.Errorf("start %d, %v; want 0", start, err)
		}
	})
}

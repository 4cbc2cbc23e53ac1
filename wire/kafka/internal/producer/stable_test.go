package producer

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
)

// TestTopicDeletedWithOpenTransaction checks that a transaction ends in its other partitions.
func TestTopicDeletedWithOpenTransaction(t *testing.T) {
	for _, commit := range []bool{true, false} {
		for _, again := range []bool{true, false} {
			f := newFixture(t)
			gone, there := f.topic("gone", 1), f.topic("there", 1)
			p := f.init("x")
			f.want(f.txnAppend("x", true, gone, 0, batch(p, 0, true, "a")), nil, 0)
			f.want(f.txnAppend("x", true, there, 0, batch(p, 0, true, "b")), nil, 0)
			f.wantCode("offset", f.offset("x", p, 5, "g", "gone", 0, 1), nil)
			f.wantCode("offset", f.offset("x", p, 5, "g", "there", 0, 1), nil)
			if err := f.catalog.Delete(t.Context(), "gone"); err != nil {
				t.Fatal(err)
			}
			if again {
				gone = f.topic("gone", 1)
			}
			f.ended("x", p, commit, 5)
			if commit {
				f.sees(there, 0, "0=b")
			} else {
				f.sees(there, 0)
			}
			if again {
				if end, _ := gone.End(t.Context(), 0); end != 0 {
					t.Error("a marker went into a topic that has nothing to do with it")
				}
			}
			if all, err := there.Offsets("g").Load(t.Context()); err != nil || (len(all) == 1) != commit {
				t.Errorf("stored offsets %v (%v)", all, err)
			}
		}
	}
}

// TestDeleteRecordsBelowTransaction checks that the last stable offset does not
// fall below the start.
func TestDeleteRecordsBelowTransaction(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	p := f.init("x")
	f.want(f.txnAppend("x", true, tp, 0, batch(p, 0, true, "a", "b", "c")), nil, 0)
	if _, err := tp.DeleteRecords(t.Context(), 0, 2); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := f.stable(tp, 0); got != 2 {
			t.Errorf("last stable offset %d, want the start, 2", got)
		}
		f.reopen(false)
		tp, _ = f.catalog.Topic(t.Context(), "t")
	}
	f.ended("x", p, true, 5)
	f.sees(tp, 0, "2=c")
}

// TestAbortedAreTrimmed checks that transactions that were aborted below the start are removed.
func TestAbortedAreTrimmed(t *testing.T) {
	f := newFixture(t)
	f.o.SnapshotEvery = 4
	f.reopen(true)
	tp := f.topic("t", 1)
	p := f.init("x")
	for i := range int64(20) {
		f.want(f.txnAppend("x", true, tp, 0, batch(p, 0, true, "a")), nil, 2*i)
		p = f.ended("x", p, false, 5)
	}
	f.reopen(false)
	tp, _ = f.catalog.Topic(t.Context(), "t")
	count := func() int {
		all, err := f.m.Aborted(t.Context(), tp, 0, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if got := count(); got != 20 {
		t.Errorf("%d aborted transactions, want 20", got)
	}
	if _, err := tp.DeleteRecords(t.Context(), 0, 39); err != nil {
		t.Fatal(err)
	}
	f.upkeep()
	if got := count(); got != 1 {
		t.Errorf("%d aborted transactions, want 1", got)
	}
	if _, err := tp.DeleteRecords(t.Context(), 0, 40); err != nil {
		t.Fatal(err)
	}
	f.upkeep()
	f.reopen(false)
	tp, _ = f.catalog.Topic(t.Context(), "t")
	if got := count(); got != 0 {
		t.Errorf("%d aborted transactions, want none", got)
	}
}

// TestOnStable checks that OnStable is called at the end of a transaction.
func TestOnStable(t *testing.T) {
	f := newFixture(t)
	var heard []int32
	f.o.OnStable = func(_ topic.ID, num int32) { heard = append(heard, num) }
	f.reopen(true)
	tp := f.topic("t", 2)
	p := f.init("x")
	f.want(f.txnAppend("x", true, tp, 1, batch(p, 0, true, "a")), nil, 0)
	if len(heard) != 0 {
		t.Errorf("heard of %v before the end", heard)
	}
	f.ended("x", p, true, 5)
	if !slices.Equal(heard, []int32{1}) {
		t.Errorf("heard of %v, want [1]", heard)
	}
}

// TestUnknownEnd checks that OnStable is called after an end with an unknown outcome, and that a
// retry of the request gets the outcome.
func TestUnknownEnd(t *testing.T) {
	for _, written := range []bool{true, false} {
		log := &failing{Log: testengines.Memory(t), outcome: mainstem.Unknown, written: written}
		f := newFixtureOn(t, log)
		heard := 0
		f.o.OnStable = func(topic.ID, int32) { heard++ }
		f.reopen(true)
		tp := f.topic("t", 1)
		p := f.init("x")
		f.want(f.txnAppend("x", true, tp, 0, batch(p, 0, true, "a")), nil, 0)
		log.n = 1
		_, code := f.end("x", p, true, 5)
		f.wantCode("end", code, kerr.CoordinatorNotAvailable)
		if heard == 0 {
			t.Error("no reader was told to look again")
		}
		if want := map[bool]int64{true: 2, false: 0}[written]; f.stable(tp, 0) != want {
			t.Errorf("last stable offset %d, want %d", f.stable(tp, 0), want)
		}
		if q := f.ended("x", p, true, 5); q != (id{p.pid, p.epoch + 1}) {
			t.Errorf("the end brings %v", q)
		}
		f.sees(tp, 0, "0=a")
	}
}

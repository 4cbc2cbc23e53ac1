package kv

import (
	"strconv"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
)

// A watch of a table whose keys come, go and never return must not grow.
func TestEndsAreBounded(t *testing.T) {
	at := time.Unix(1000, 0)
	tombstone := &mainstem.Record{Tombstone: mainstem.Deleted, Time: at}
	value := &mainstem.Record{Time: at}
	var e ends
	const n = 5*maxEnds + maxEnds/2
	for i := range n {
		e.note(strconv.Itoa(i), tombstone)
		if n := len(e.young) + len(e.old); n > 2*maxEnds {
			t.Fatalf("%d ends remembered after %d", n, i)
		}
	}
	for i := n - maxEnds; i < n; i++ {
		if !e.before(strconv.Itoa(i), value) {
			t.Fatalf("end %d of %d is forgotten", i, n)
		}
		e.note(strconv.Itoa(i), value)
		if e.before(strconv.Itoa(i), value) {
			t.Fatalf("end %d is remembered after a new value", i)
		}
	}
}

func TestEndsKnowTimesToLive(t *testing.T) {
	var e ends
	at := time.Unix(1000, 0)
	e.note("k", &mainstem.Record{Time: at, Expires: at.Add(time.Minute)})
	if e.before("k", &mainstem.Record{Time: at.Add(59 * time.Second)}) {
		t.Error("the value ended before its time")
	}
	if !e.before("k", &mainstem.Record{Time: at.Add(time.Minute)}) {
		t.Error("the value outlives its time")
	}
}

// A value that was written while the clock was behind has an end before its Time.
func TestEndsWhileTimesStandStill(t *testing.T) {
	var e ends
	at := time.Unix(10_000, 0)
	e.note("k", &mainstem.Record{Time: at, Expires: at.Add(-time.Hour)})
	if e.before("k", &mainstem.Record{Time: at}) {
		t.Error("the value ended at the time of its own record")
	}
	if !e.before("k", &mainstem.Record{Time: at.Add(1)}) {
		t.Error("the value outlives the clock")
	}
}

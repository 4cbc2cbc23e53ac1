package natslog

import (
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
)

// A frame that was not written on top of what an open log has seen belongs to another stream.
// While the log is opened that is not known, and where messages are missing the log must be read anew.
func TestFrameOnTopOfAnother(t *testing.T) {
	for what, c := range map[string]struct {
		loading bool
		missed  bool
		seq     uint64 // after 10
		base    uint64 // after 100
		part    uint32
		ok      bool
	}{
		"the next one":                     {seq: 11, base: 100, ok: true},
		"one after a gap":                  {seq: 12, base: 100, missed: true},
		"one after records in the gap":     {seq: 12, base: 107, missed: true},
		"the end of one after a gap":       {seq: 12, base: 107, part: 1, missed: true},
		"one after a gap, at the open":     {seq: 12, base: 107, loading: true, ok: true},
		"one of a log that was behind":     {seq: 11, base: 99},
		"one of a log that was ahead":      {seq: 11, base: 101},
		"one after a gap that was behind":  {seq: 12, base: 99},
		"one that was behind, at the open": {seq: 11, base: 99, loading: true, ok: true},
	} {
		l := &Log{replay: replay{st: newState()}}
		if err := l.takeLocked(piece{frame: frame{head: 100}, base: 90, parts: 1}, 10); err != nil {
			t.Fatal(err)
		}
		l.loaded = !c.loading
		err := l.takeLocked(piece{frame: frame{head: 110}, base: c.base, part: c.part, parts: 2}, c.seq)
		if want := map[bool]error{false: mainstem.ErrCorrupt, true: errMissed}[c.missed]; c.ok != (err == nil) || err != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
		if seen := l.st.seq == c.seq; seen != c.ok {
			t.Errorf("%s: taken into the state: %v", what, seen)
		}
	}
}

// What waited for the committer when the log became unusable is not evaluated on its state.
func TestNothingIsWrittenOnADamagedState(t *testing.T) {
	l := &Log{replay: replay{st: newState()}, damage: mapError("read stream", otherStream("message %d was another one", 1))}
	r := &request{ctx: t.Context(), op: "commit", done: make(chan struct{}), run: func(*tx) (bool, error) {
		t.Error("it is evaluated")
		return true, nil
	}}
	l.commitGroup([]*request{r})
	<-r.done
	var e *mainstem.Error
	if !errors.As(r.err, &e) || e.Kind != mainstem.KindCorrupt || e.Outcome != mainstem.NotWritten || e.Hint == "" {
		t.Errorf("the commit: %v, want Corrupt, not written, and what to do", r.err)
	}
}

package logcopy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/logcopy"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// apart are a source and a target whose clocks differ, and go on together.
type apart struct {
	source, target *testkit.Clock
}

func (a *apart) pass(d time.Duration) {
	a.source.Advance(d)
	a.target.Advance(d)
}

// leasing writes one record that lives for an hour into the space s of log.
func leasing(t *testing.T, log mainstem.Log) {
	t.Helper()
	commit(t, log, func(b *mainstem.Batch) {
		b.Ensure("s", mainstem.Policy{})
		b.Add(mainstem.Write{Space: "s", Key: []byte("k"), Value: []byte("v"), TTL: time.Hour})
	})
}

// A record expires in the target at the moment at which it does at the source, each by its
// own clock: later by as much as the target's clock is behind, and earlier by as much as it
// is ahead.
func TestRemainingLife(t *testing.T) {
	for _, ahead := range []time.Duration{-logcopy.MaxApart, 0, logcopy.MaxApart} {
		t.Run(ahead.String(), func(t *testing.T) {
			a := &apart{new(testkit.Clock), new(testkit.Clock)}
			a.target.Advance(ahead)
			from, to := open(t, a.source), open(t, a.target)
			leasing(t, from)
			a.pass(10 * time.Minute)
			run(t, from, to, &logcopy.Options{Now: a.source.Now})
			same(t, dump(t, to, "", nil), dump(t, from, "", nil))
			r, err := to.Get(t.Context(), "s", []byte("k"))
			if err != nil {
				t.Fatal(err)
			}
			if left := r.Expires.Sub(a.target.Now()); left != 50*time.Minute-ahead {
				t.Errorf("the record has %v left, want %v", left, 50*time.Minute-ahead)
			}
			a.pass(50*time.Minute - ahead - time.Second)
			if _, err := to.Get(t.Context(), "s", []byte("k")); err != nil {
				t.Errorf("a second before its end: %v", err)
			}
			a.pass(time.Second)
			if _, err := to.Get(t.Context(), "s", []byte("k")); !errors.Is(err, mainstem.ErrNotFound) {
				t.Errorf("after its end: %v, want NotFound", err)
			}
		})
	}
}

// Clocks that differ by more end the copy before anything is written. Set right, they let it
// go on.
func TestClocksTooFarApart(t *testing.T) {
	for _, ahead := range []time.Duration{-24 * time.Hour, -logcopy.MaxApart - 1, logcopy.MaxApart + 1, 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			a := &apart{new(testkit.Clock), new(testkit.Clock)}
			a.target.Advance(ahead)
			from, to := open(t, a.source), open(t, a.target)
			leasing(t, from)
			c, err := logcopy.New(from, to, &logcopy.Options{Now: a.source.Now})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Run(t.Context()); !errors.Is(err, mainstem.ErrUnavailable) || !strings.Contains(err.Error(), logcopy.MaxApart.String()) {
				t.Errorf("Run: %v, want Unavailable and the limit", err)
			}
			if head, err := to.Head(t.Context()); err != nil || head != 0 {
				t.Errorf("the target is at position %d: %v, want 0", head, err)
			}
			a.target.Advance(-ahead)
			run(t, from, to, &logcopy.Options{Now: a.source.Now})
			same(t, dump(t, to, "", nil), dump(t, from, "", nil))
		})
	}
}

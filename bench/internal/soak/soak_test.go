package soak

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
)

func short(t *testing.T) Options {
	return Options{
		Dir: filepath.Join(t.TempDir(), "log"), Durability: mainstem.OS, Writers: 3, Keys: 2500, ValueBytes: 50,
		Idle: 200 * time.Millisecond, Find: 400 * time.Millisecond, For: time.Second, Every: 100 * time.Millisecond,
	}
}

func TestSoak(t *testing.T) {
	o := short(t)
	doing := map[string]bool{}
	o.Watch = func(what string, part float64) {
		doing[what] = true
		if part < 0 || part > 1 {
			t.Errorf("%s: %v of it is done", what, part)
		}
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Sustained <= 0 || r.Rate != 0.8*r.Sustained {
		t.Errorf("a rate of %v, sustained %v: want 0.8 of it", r.Rate, r.Sustained)
	}
	// A schedule makes all of its calls, or counts them.
	if want := IdleRate * o.Idle.Seconds(); r.Idle.Commits == 0 || float64(r.Idle.Commits) > want+3 {
		t.Errorf("%d commits at the low rate, want at most %v", r.Idle.Commits, want)
	}
	if want := r.Rate * o.For.Seconds(); !about(r.Load.Commits+r.Missed, want, want/100+3) {
		t.Errorf("%d commits of the steady load, want %v", r.Load.Commits, want)
	}
	var sum int64
	var last Sample
	for _, s := range r.Series {
		sum += s.Commits
		if s.At <= last.At || s.Goroutines < o.Writers || s.Disk == 0 || s.Failed != 0 {
			t.Errorf("a sample of %+v after %+v", s, last)
		}
		if s.Anonymous > s.Resident || runtime.GOOS == "linux" && s.Anonymous == 0 {
			t.Errorf("%d bytes of %d are no pages of files", s.Anonymous, s.Resident)
		}
		if s.Commits > 0 && (s.P50 <= 0 || s.P50 > s.P999 || s.P999 > s.Max || s.Max > r.Load.Max) {
			t.Errorf("a sample of times %+v; the longest of all was %v", s.Latency, r.Load.Max)
		}
		last = s
	}
	if sum != r.Load.Commits {
		t.Errorf("the samples have %d commits of %d", sum, r.Load.Commits)
	}
	if r.Written < uint64(r.Load.Commits)*uint64(o.ValueBytes) {
		t.Errorf("%d bytes were written by %d commits", r.Written, r.Load.Commits)
	}
	for _, what := range []string{"put all keys", "low rate", "sustained rate", "steady load"} {
		if !doing[what] {
			t.Errorf("%q was not shown", what)
		}
	}
}

func about(n int64, want, within float64) bool {
	return float64(n) >= want-within && float64(n) <= want+within
}

func TestInterruptedSoakKeepsItsSamples(t *testing.T) {
	o := short(t)
	o.Rate, o.For = 500, time.Hour
	ctx, stop := context.WithCancel(t.Context())
	seen := 0
	o.Watch = func(doing string, _ float64) {
		if doing == "steady load" {
			if seen++; seen == 5 {
				stop()
			}
		}
	}
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || r.Load.Commits == 0 || len(r.Series) < 5 || r.Sustained != 0 {
		t.Errorf("interrupted %t, %d commits, %d samples, sustained %v", r.Interrupted, r.Load.Commits, len(r.Series), r.Sustained)
	}
}

func TestSoakThatCannotRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"no directory":        {func(o *Options) { o.Dir = "" }, "the directory is empty"},
		"no writers":          {func(o *Options) { o.Writers = -1 }, "-1 writers"},
		"more than sustained": {func(o *Options) { o.Part = 1.5 }, "1.5 of the sustained rate"},
		"no time":             {func(o *Options) { o.For = -1 }, "above 0"},
	} {
		o := short(t)
		c.change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.says)
		}
	}
	ctx, stop := context.WithCancelCause(t.Context())
	ended := errors.New("ended before it began")
	stop(ended)
	if _, err := Run(ctx, short(t)); !errors.Is(err, ended) && !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, ended)
	}
}

func TestTrendsAreMediansOfQuarters(t *testing.T) {
	var r Result
	for i := range 16 {
		r.Series = append(r.Series, Sample{Goroutines: i, Resident: 100})
	}
	for _, n := range r.Trends() {
		switch n.Name {
		case "goroutines":
			if n.First != 2 || n.Last != 14 {
				t.Errorf("goroutines went from %v to %v; want 2 to 14", n.First, n.Last)
			}
		case "resident memory":
			if n.First != 100 || n.Last != 100 {
				t.Errorf("memory went from %v to %v; want 100 to 100", n.First, n.Last)
			}
		}
	}
	r.Series = r.Series[:7]
	if r.Trends() != nil {
		t.Error("seven samples have trends")
	}
}

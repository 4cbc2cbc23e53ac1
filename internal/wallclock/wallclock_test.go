package wallclock_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// TestSteps drives a clock through steps and looks at what is held.
func TestSteps(t *testing.T) {
	const day = 24 * time.Hour
	type step struct{ wall, mono, held time.Duration }
	for name, steps := range map[string][]step{
		"time passes":        {{day, day, 0}, {time.Second, time.Second, 0}},
		"small steps":        {{time.Minute, 0, 0}, {time.Minute, 0, 0}, {-time.Minute, 0, 0}},
		"a jump":             {{day, time.Hour, day - time.Hour}, {time.Hour, time.Hour, day - time.Hour}},
		"two jumps":          {{day, 0, day}, {day, 0, 2 * day}},
		"there and back":     {{day, 0, day}, {-day + time.Hour, time.Hour, 0}},
		"half way back":      {{day, 0, day}, {-day / 2, 0, day / 2}, {-day / 2, 0, 0}},
		"further back":       {{day, 0, day}, {-2 * day, 0, 0}, {day, 0, day}},
		"back and there":     {{-day, 0, 0}, {day, 0, day}},
		"after a long sleep": {{time.Hour, 0, time.Hour}, {time.Second, time.Second, time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			wall, mono := time.Date(2031, 3, 1, 0, 0, 0, 0, time.UTC), time.Duration(0)
			var out bytes.Buffer
			changes := 0
			c := wallclock.New(wallclock.Options{
				Now:       func() time.Time { return wall },
				Monotonic: func() time.Duration { return mono },
				Logger:    slog.New(slog.NewTextHandler(&out, nil)),
				Changed:   func() { changes++ },
			})
			var held time.Duration
			for i, s := range steps {
				wall, mono = wall.Add(s.wall), mono+s.mono
				for range 3 { // an event is noticed once
					if got := c.Now(); got != wall.UnixNano() {
						t.Fatalf("step %d: it shows %d, want %d", i, got, wall.UnixNano())
					}
				}
				held = 0
				if h := c.Hold(); h != nil {
					held = time.Duration(h.Ahead)
				}
				if held != s.held {
					t.Fatalf("step %d: %v is held, want %v\n%s", i, held, s.held, out.String())
				}
			}
			jumps, backs := c.Events()
			if uint64(changes) != jumps+backs || uint64(strings.Count(out.String(), "jumped forward:")) != jumps {
				t.Fatalf("%d changes, %d jumps, %d steps back; logged:\n%s", changes, jumps, backs, out.String())
			}
			if got := c.Accept(); got != held || c.Hold() != nil {
				t.Fatalf("accepting ended a hold of %v, want %v", got, held)
			}
		})
	}
}

// TestHold checks the time by which records are judged.
func TestHold(t *testing.T) {
	h := &wallclock.Hold{Boundary: 1000, Ahead: 500}
	for _, c := range []struct {
		h                  *wallclock.Hold
		now, written, want int64
	}{
		{nil, 1100, 10, 1100},
		{h, 1100, 10, 600},
		{h, 1100, 1000, 1100},
		{h, 900, 10, 900}, // read before the jump
	} {
		if got := c.h.At(c.now, c.written); got != c.want {
			t.Errorf("at %d what was written at %d is judged at %d, want %d", c.now, c.written, got, c.want)
		}
	}
}

// TestJumpsAreHeldForAll has a clock jump and come back while goroutines read it: none
// gets a reading of the jump without the hold.
func TestJumpsAreHeldForAll(t *testing.T) {
	var mu sync.Mutex
	start := time.Date(2031, 3, 1, 0, 0, 0, 0, time.UTC)
	wall, mono := start, time.Duration(0)
	c := wallclock.New(wallclock.Options{
		Now:       func() time.Time { mu.Lock(); defer mu.Unlock(); return wall },
		Monotonic: func() time.Duration { mu.Lock(); defer mu.Unlock(); mono++; return mono },
		Logger:    slog.New(slog.DiscardHandler),
	})
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if m := c.Moment(nil); m.Now > start.Add(time.Hour).UnixNano() && m.Hold == nil {
					t.Error("a reading of the jump has no hold")
					return
				}
			}
		})
	}
	for i := range 20_000 {
		mu.Lock()
		wall = start.Add(time.Duration(i%2) * 24 * time.Hour)
		mu.Unlock()
		runtime.Gosched()
	}
	close(done)
	readers.Wait()
}

// TestReadTogether has an hour go by between the readings of the two clocks.
func TestReadTogether(t *testing.T) {
	wall, mono := time.Date(2031, 3, 1, 0, 0, 0, 0, time.UTC), time.Duration(0)
	pauses := 0
	pass := func() {
		if pauses > 0 {
			pauses--
			wall, mono = wall.Add(time.Hour), mono+time.Hour
		}
	}
	c := wallclock.New(wallclock.Options{
		Now:       func() time.Time { pass(); return wall },
		Monotonic: func() time.Duration { defer pass(); return mono },
		Logger:    slog.New(slog.DiscardHandler),
	})
	for pauses = range 10 {
		c.Now()
		if jumps, backs := c.Events(); jumps+backs != 0 {
			t.Fatalf("%d jumps and %d steps back were seen", jumps, backs)
		}
	}
}

// TestBelieved checks that times without a monotonic reading are believed.
func TestBelieved(t *testing.T) {
	wall := time.Unix(1_900_000_000, 0)
	c := wallclock.New(wallclock.Options{Now: func() time.Time { return wall }, Logger: slog.New(slog.DiscardHandler)})
	for _, d := range []time.Duration{time.Hour, -24 * time.Hour, 1000 * time.Hour} {
		wall = wall.Add(d)
		if c.Now(); c.Hold() != nil {
			t.Fatalf("a step of %v is held", d)
		}
	}
}

func BenchmarkNow(b *testing.B) {
	c := wallclock.New(wallclock.Options{Logger: slog.New(slog.DiscardHandler)})
	for b.Loop() {
		c.Now()
	}
}

// TestTwoJumps checks that what was written between two jumps that are held is judged without
// the second one only, and that a clock that comes back undoes the second one first.
func TestTwoJumps(t *testing.T) {
	const day = 24 * time.Hour
	start := time.Date(2031, 3, 1, 0, 0, 0, 0, time.UTC)
	wall := start
	c := wallclock.New(wallclock.Options{
		Now:       func() time.Time { return wall },
		Monotonic: func() time.Duration { return 0 },
		Logger:    slog.New(slog.DiscardHandler),
	})
	var written []int64 // before, between and after the jumps
	for _, d := range []time.Duration{0, 10 * day, 5 * day} {
		wall = wall.Add(d)
		written = append(written, c.Now())
	}
	judged := func(when string, want ...time.Duration) {
		t.Helper()
		now := c.Now()
		for i, w := range written[:len(want)] {
			if got := time.Unix(0, c.Hold().At(now, w)).Sub(start); got != want[i] {
				t.Errorf("%s: what was written at %v is judged at %v, want %v", when, time.Unix(0, w).Sub(start), got, want[i])
			}
		}
	}
	judged("after both", 0, 10*day, 15*day)
	if got := time.Unix(0, c.Hold().First()).Sub(start); got != 5*day {
		t.Errorf("the first boundary is at %v, want 5 days", got)
	}
	wall = wall.Add(-3 * day) // of the five
	judged("partly back", 0, 10*day)
	wall = wall.Add(-2 * day)
	judged("back before the second", 0, 10*day)
	wall = wall.Add(-4 * day) // of the ten
	judged("further back", 0)
	wall = wall.Add(-6 * day)
	judged("all the way back", 0)
	if h := c.Hold(); h != nil {
		t.Errorf("in the end %+v is held", h)
	}
}

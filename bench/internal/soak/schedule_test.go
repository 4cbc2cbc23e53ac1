package soak

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A call that takes a second delays the ten calls that should have begun meanwhile, and each
// of them counts from when it should have.
func TestLateCallsCountFromTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now().Add(time.Millisecond)
		s := schedule{begin: begin, end: begin.Add(3 * time.Second), every: 100 * time.Millisecond}
		if n := s.calls(); n != 30 {
			t.Fatalf("%d calls, want 30", n)
		}
		r, n := newRecorder(), 0
		missed, err := s.follow(t.Context(), r, func() error {
			if n++; n == 5 {
				time.Sleep(time.Second)
			}
			return nil
		})
		if missed != 0 || err != nil {
			t.Fatalf("%d calls were missed: %v", missed, err)
		}
		h := newHistogram()
		if late := r.take(h); late != 0 {
			t.Errorf("the timer was late by %v", late)
		}
		if n != 30 || h.TotalCount() != 30 {
			t.Errorf("%d calls, %d counted; want 30", n, h.TotalCount())
		}
		var slow []int64
		for _, b := range h.Distribution() {
			if b.From >= int64(50*time.Millisecond) {
				for range b.Count {
					slow = append(slow, b.To/int64(time.Millisecond))
				}
			}
		}
		// 1 s; then those that were to begin 100, 200, ... 900 ms after it began.
		want := []int64{100, 200, 300, 400, 500, 600, 700, 800, 900, 1000}
		if len(slow) != len(want) {
			t.Fatalf("slow calls took %v ms, want %v", slow, want)
		}
		for i := range want {
			if d := slow[i] - want[i]; d < -1 || d > 1 {
				t.Errorf("slow calls took %v ms, want %v", slow, want)
			}
		}
	})
}

// Calls take twice the interval: at the end half are made, and a quarter more in the grace.
func TestScheduleThatCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedule{begin: time.Now(), end: time.Now().Add(100 * time.Second), every: time.Second, grace: 50 * time.Second}
		r, n := newRecorder(), int64(0)
		missed, err := s.follow(t.Context(), r, func() error {
			n++
			time.Sleep(2 * time.Second)
			return nil
		})
		if err != nil || n+missed != 100 || n < 74 || n > 77 {
			t.Errorf("%d calls were made, %d missed: %v", n, missed, err)
		}
	})
}

// A writer that wakes up after the end and the grace makes one call, which tells how late it was.
func TestScheduleThatBeginsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now().Add(-time.Minute)
		s := schedule{begin: begin, end: begin.Add(10 * time.Second), every: time.Second, grace: time.Second}
		r, n := newRecorder(), 0
		missed, err := s.follow(t.Context(), r, func() error { n++; return nil })
		h := newHistogram()
		r.take(h)
		if err != nil || n != 1 || missed != 9 || h.Max() < int64(59*time.Second) {
			t.Errorf("%d calls were made, %d missed, the longest took %v: %v; want 1, 9 and 1m0s", n, missed, time.Duration(h.Max()), err)
		}
	})
}

func TestScheduleEndsWithTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the disk is gone")
		s := schedule{begin: time.Now(), end: time.Now().Add(time.Hour), every: time.Second}
		n := 0
		_, err := s.follow(t.Context(), newRecorder(), func() error {
			if n++; n == 3 {
				return broken
			}
			return nil
		})
		if !errors.Is(err, broken) || n != 3 {
			t.Errorf("%v after %d calls, want %v after 3", err, n, broken)
		}
	})
}

func TestCalls(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		long, every time.Duration
		want        int64
	}{
		{0, time.Second, 0}, {-time.Second, time.Second, 0},
		{1, time.Second, 1}, {time.Second, time.Second, 1}, {time.Second + 1, time.Second, 2},
	} {
		if n := (schedule{begin: now, end: now.Add(c.long), every: c.every}).calls(); n != c.want {
			t.Errorf("%v at intervals of %v: %d calls, want %d", c.long, c.every, n, c.want)
		}
	}
}

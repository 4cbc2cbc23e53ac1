package wallclock_test

import (
	"math"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// TestRebase checks what counts for records from before, while and after a clock was ahead.
func TestRebase(t *testing.T) {
	m := wallclock.Moment{Marks: []wallclock.Mark{{Position: 10, High: 9000, Clock: 1000}, {Position: 20, High: 8000, Clock: 2000}}}
	for _, c := range []struct {
		position                          uint64
		clock, expires, wantClock, wantTo int64
	}{
		{5, 900, 950, 900, 950},
		{5, 9000, 9500, 1000, 1500},
		{10, 9000, 0, 1000, 0},
		{10, 9000, math.MaxInt64, 1000, math.MaxInt64},
		{11, 1500, 1600, 1500, 1600},
		{20, 8000, 8100, 2000, 2100},
		{21, 8000, 8100, 8000, 8100},
	} {
		clock, to := m.Rebase(c.position, c.clock, c.expires)
		if clock != c.wantClock || to != c.wantTo {
			t.Errorf("position %d, written at %d until %d, counts as written at %d until %d, want %d and %d",
				c.position, c.clock, c.expires, clock, to, c.wantClock, c.wantTo)
		}
		if again, to2 := m.Rebase(c.position, clock, to); again != clock || to2 != to {
			t.Errorf("doing it twice makes %d, %d of %d, %d", again, to2, clock, to)
		}
	}
}

// TestSetBack checks which marks are left when the clock was set back again.
func TestSetBack(t *testing.T) {
	first := wallclock.Mark{Position: 10, High: 9000, Clock: 1000}
	for _, c := range []struct{ mark, want wallclock.Mark }{
		{wallclock.Mark{Position: 20, High: 3000, Clock: 2000}, wallclock.Mark{Position: 20, High: 3000, Clock: 2000}},
		{wallclock.Mark{Position: 20, High: 1500, Clock: 500}, wallclock.Mark{Position: 20, High: 9000, Clock: 500}},
		{wallclock.Mark{Position: 10, High: 3000, Clock: 2000}, wallclock.Mark{Position: 10, High: 9000, Clock: 1000}},
	} {
		got := wallclock.SetBack([]wallclock.Mark{first}, c.mark)
		if got[len(got)-1] != c.want || !slices.IsSortedFunc(got, func(a, b wallclock.Mark) int { return int(a.Clock - b.Clock) }) {
			t.Errorf("after %+v the marks are %+v, want %+v as the last", c.mark, got, c.want)
		}
	}
}

// TestValid checks that marks are void once the clock has passed them, unless it jumped.
func TestValid(t *testing.T) {
	marks := []wallclock.Mark{{Position: 10, High: 9000, Clock: 1000}}
	for _, c := range []struct {
		m    wallclock.Moment
		want int
	}{
		{wallclock.Moment{Now: 8999, Marks: marks}, 1},
		{wallclock.Moment{Now: 9000, Marks: marks}, 0},
		{wallclock.Moment{Now: 9000, Marks: marks, Hold: &wallclock.Hold{Boundary: 5000, Ahead: 7000}}, 1},
	} {
		if got := c.m.Valid(); len(got) != c.want {
			t.Errorf("at %d %d marks are left, want %d", c.m.Now, len(got), c.want)
		}
	}
}

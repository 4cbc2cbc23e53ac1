package testkit

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	var c Clock
	check := func(what string, wall time.Time, mono time.Duration) {
		t.Helper()
		if !c.Now().Equal(wall) || c.Monotonic() != mono {
			t.Errorf("%s: the clocks show %v and %v, want %v and %v", what, c.Now(), c.Monotonic(), wall, mono)
		}
	}
	check("new", Start, 0)
	c.Advance(time.Hour)
	check("after an hour", Start.Add(time.Hour), time.Hour)
	c.Leap(-3 * time.Hour)
	check("after a leap", Start.Add(-2*time.Hour+1), time.Hour+1)
	at := time.Date(2031, 4, 5, 6, 7, 8, 9, time.UTC)
	c.Set(at)
	check("set", at, time.Hour+1)
}

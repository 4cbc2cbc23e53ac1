package main

import (
	"testing"
	"time"
)

// TestTimeLeft: while a long step lasts, the part that is done grows and the time that is
// left falls; both stop short of the end of the step when it takes longer than it should.
func TestTimeLeft(t *testing.T) {
	const minute = time.Minute
	s := stretch{part: 0.25, until: 0.5, began: 10 * minute} // 10 minutes for each quarter
	for _, c := range []struct {
		now  time.Duration
		part float64
		left time.Duration
	}{
		{10 * minute, 0.25, 30 * minute},
		{15 * minute, 0.375, 25 * minute},
		{19 * minute, 0.475, 21 * minute},
	} {
		part, left, known := s.at(c.now)
		if !known || part < c.part-1e-6 || part > c.part+1e-6 || (left-c.left).Abs() > time.Second {
			t.Errorf("after %v: %.3f and %v left, want %.3f and %v", c.now, part, left, c.part, c.left)
		}
	}
	late, left, _ := s.at(40 * minute)
	if late >= s.until || late < 0.48 || left <= 30*minute {
		t.Errorf("a step that is late: %.3f and %v left", late, left)
	}
	if _, _, known := (stretch{part: 0, until: 0.1, began: 0}).at(minute); known {
		t.Error("the time left of a first step cannot be known")
	}
	if part, left, known := (stretch{part: 1, until: 1, began: minute}).at(2 * minute); part != 1 || left != 0 || !known {
		t.Errorf("at the end: %.3f and %v left", part, left)
	}
}

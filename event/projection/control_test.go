package projection

import (
	"slices"
	"testing"
)

// The row knows of the last replays whether they were finished, and says of older ones that they were
// not.
func TestFinishedReplays(t *testing.T) {
	var c control
	finished := []int{2, 3, 5, 9, 66, 68, 70}
	for _, n := range finished {
		c.finishedReplay(n)
	}
	for n := 1; n <= 80; n++ {
		if want := n >= 70-64 && slices.Contains(finished, n); c.isReplayed(n) != want {
			t.Errorf("replay %d: finished is %v, want %v", n, !want, want)
		}
	}
	c.finishedReplay(700)
	for n := 1; n <= 800; n++ {
		if want := n == 700; c.isReplayed(n) != want {
			t.Errorf("replay %d: finished is %v, want %v", n, !want, want)
		}
	}
}

package alert

import (
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem"
)

// TestApplied adds positions in all ways, and looks at all of them each time.
func TestApplied(t *testing.T) {
	a := applied{prefix: 10}
	batch := func(first, last mainstem.Position) { a.add(mainstem.Receipt{First: first, Last: last}) }
	check := func(upTo mainstem.Position, more ...mainstem.Position) {
		t.Helper()
		if got := a.upTo(); got != upTo {
			t.Errorf("everything up to %d is there, want %d", got, upTo)
		}
		for p := range mainstem.Position(40) {
			if want := p <= upTo || slices.Contains(more, p); a.has(p) != want {
				t.Errorf("%d is there: %t, want %t; %v", p, !want, want, a.ranges)
			}
		}
	}
	check(10)
	batch(0, 0) // nothing was written
	batch(11, 12)
	check(12)
	batch(14, 15) // somebody else wrote between
	batch(16, 16)
	batch(20, 22)
	check(12, 14, 15, 16, 20, 21, 22)
	if a.advance(11) || a.advance(12) {
		t.Error("nothing is behind 12")
	}
	if a.advance(13) { // what somebody else wrote
		t.Error("nothing is behind 13")
	}
	check(16, 20, 21, 22)
	if a.advance(21) {
		t.Error("nothing is behind 21")
	}
	check(22)
	if a.advance(20) || !a.advance(22) || !a.advance(30) {
		t.Error("the end is not known")
	}
	batch(31, 31)
	check(31)
}

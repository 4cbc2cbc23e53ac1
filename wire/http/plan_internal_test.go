package viewhttp

import (
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// TestAppended: an engine without gaps, one with gaps, and plans that are damaged.
func TestAppended(t *testing.T) {
	r := mainstem.Receipt{First: 10, Last: 14, Versions: []mainstem.Version{1, 4, 1, 5, 1}} // index, event, index, event, key
	gaps := r
	gaps.Last = 90
	for _, c := range []struct {
		events  []int
		receipt mainstem.Receipt
		want    event.Appended
	}{
		{[]int{1, 3}, r, event.Appended{First: 4, Last: 5, FirstPosition: 11, LastPosition: 13}},
		{[]int{3, 1}, r, event.Appended{First: 5, Last: 5, FirstPosition: 13, LastPosition: 13}},
		{[]int{1, 3}, gaps, event.Appended{First: 4, Last: 5, FirstPosition: 10, LastPosition: 90}},
		{nil, r, event.Appended{FirstPosition: 10, LastPosition: 14}},
		{[]int{1}, r, event.Appended{FirstPosition: 10, LastPosition: 14}},
		{[]int{-1, 3}, r, event.Appended{FirstPosition: 10, LastPosition: 14}},
		{[]int{3, 0}, r, event.Appended{FirstPosition: 10, LastPosition: 14}},
		{[]int{3, 3}, r, event.Appended{FirstPosition: 10, LastPosition: 14}},
		{[]int{9, 1 << 62}, r, event.Appended{FirstPosition: 10, LastPosition: 14}},
	} {
		if got := (&part{Events: c.events}).appended(c.receipt); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.events, got, c.want)
		}
	}
}

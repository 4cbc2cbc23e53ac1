package compare

import (
	"slices"
	"strings"
)

// Suspects returns the cases (suite/case) with a change that counts, each once.
func (r Report) Suspects() []string {
	var cases []string
	for _, c := range r.Counts() {
		name := c.Name[:strings.LastIndexByte(c.Name, '/')]
		if !slices.Contains(cases, name) {
			cases = append(cases, name)
		}
	}
	return cases
}

// Confirm returns r with the changes that count replaced by those of a second
// measurement of the same: one disturbance rarely happens twice in the same place,
// a slower program is slower again. What counts is what is worse both times.
func (r Report) Confirm(second Report) Report {
	type id struct{ name, measure string }
	measured := map[id]Change{}
	for _, c := range second.Changes {
		measured[id{c.Name, c.Measure}] = c
	}
	out := r
	out.Changes = slices.Clone(r.Changes)
	for i, c := range out.Changes {
		again, ok := measured[id{c.Name, c.Measure}]
		if (c.Judgement == Slower || c.Judgement == Lost) && ok {
			out.Changes[i] = again
		}
	}
	return out
}

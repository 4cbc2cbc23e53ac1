package runner

import (
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// cost is what the entries of a suite have taken.
type cost struct {
	entries int
	time    time.Duration
}

// spent notes what a case took.
func (m *run) spent(suite string, chosen map[int]bool, took time.Duration) {
	if len(chosen) == 0 {
		return
	}
	if m.cost[suite] == nil {
		m.cost[suite] = new(cost)
	}
	m.cost[suite].entries += len(chosen)
	m.cost[suite].time += took
}

// choose returns which entries of a case run, by their place in it: all that can, if
// its share of the time is enough for what entries of the suite have taken so far.
// Else as many as it is enough for, but no fewer than can be compared: so every case
// has a result when time is short, and not the first ones alone.
func (m *run) choose(entries []*suite.Entry, share time.Duration) map[int]bool {
	chosen := map[int]bool{}
	if share < 0 {
		return chosen
	}
	enough := len(entries)
	if c := m.cost[entries[0].Suite]; c != nil && share > 0 {
		enough = max(2, int(share*time.Duration(c.entries)/max(c.time, 1)))
	}
	for _, i := range m.byNeed(entries) {
		if len(chosen) < enough {
			chosen[i] = true
		}
	}
	return chosen
}

// byNeed orders the entries that can run by what they add to a comparison: of every
// durability one of ours and one peer, then second ones, and so on.
func (m *run) byNeed(entries []*suite.Entry) []int {
	type group struct {
		durability suite.Durability
		ours       bool
	}
	var durabilities []suite.Durability
	members := map[group][]int{}
	for i, e := range entries {
		if m.reason(e) != "" {
			continue
		}
		row := result.Row{Contender: e.Contender}
		g := group{e.Durability, row.Ours()}
		if members[g] == nil && members[group{e.Durability, !g.ours}] == nil {
			durabilities = append(durabilities, e.Durability)
		}
		members[g] = append(members[g], i)
	}
	var order []int
	for k, found := 0, true; found; k++ {
		found = false
		for _, d := range durabilities {
			for _, ours := range []bool{true, false} {
				if all := members[group{d, ours}]; k < len(all) {
					order = append(order, all[k])
					found = true
				}
			}
		}
	}
	return order
}

// reason returns why an entry cannot run here, "" if it can, without starting it.
func (m *run) reason(e *suite.Entry) string {
	if e.Skip == nil {
		return ""
	}
	return e.Skip(m.env())
}

package report

import (
	"strings"

	"github.com/mainstemdev/mainstem/bench/internal/stats"
)

// A reason says in a line why Mainstem loses in some cases.
type reason struct {
	cases string // a suite, or the first segments of names of cases
	// durability and peer are those that it speaks of, "" for all. A peer is named by the
	// beginning of its name.
	durability, peer string
	text             string
}

// covers reports whether the reason is one for a verdict.
func (r *reason) covers(v *stats.Verdict) bool {
	return strings.HasPrefix(v.Suite+"/"+v.Case+"/", r.cases+"/") &&
		(r.durability == "" || r.durability == v.Durability) &&
		strings.HasPrefix(v.Peer.Contender, r.peer)
}

// unexplained is the reason where there is none.
var unexplained = reason{text: "not looked into yet"}

// why returns the reason for a lost verdict: the first one that covers it.
func why(v *stats.Verdict) *reason {
	for i := range reasons {
		if reasons[i].covers(v) {
			return &reasons[i]
		}
	}
	return &unexplained
}

// lostTable has a row for each verdict that was lost.
func lostTable(verdicts []stats.Verdict) Table {
	t := Table{Columns: []Column{{"case", true}, {"durability", true}, {"to", true}, {"times", false}, {"why", true}}}
	for i := range verdicts {
		if v := &verdicts[i]; v.Outcome == stats.Lost {
			t.Rows = append(t.Rows, []string{v.Suite + "/" + v.Case, v.Durability, v.Peer.Contender, Value(v.Times, "x"), why(v).text})
		}
	}
	return t
}

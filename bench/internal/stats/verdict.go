package stats

import (
	"cmp"
	"slices"

	"github.com/mainstemdev/mainstem/bench/internal/result"
)

// Outcome is what a comparison of Mainstem with its peers comes to.
type Outcome string

// The outcomes.
const (
	Won  Outcome = "won"
	Lost Outcome = "lost"
	Even Outcome = "even" // the noise is larger than the difference
	Open Outcome = "open" // there were too few rounds to tell
)

// Verdict compares the best contender of ours with the best peer in one case, at
// one durability: fsync is never compared with none.
type Verdict struct {
	Suite, Case string
	Durability  string
	Ours, Peer  *result.Row
	Outcome     Outcome
	// Times is how many times better the better one is, at least 1.
	Times      float64
	Comparison Comparison // peer over ours, so that more than 1 is won if less is better
}

// Ways is what the transports of the two sides of a verdict are to each other.
type Ways int

// The ways.
const (
	SameWay    Ways = iota
	OtherWay        // one is nearer than the other: a part of the difference is the way
	UnknownWay      // the results do not say it of both
)

// Ways compares how the two were reached.
func (v *Verdict) Ways() Ways {
	switch {
	case v.Ours.Transport == "" || v.Peer.Transport == "":
		return UnknownWay
	case v.Ours.Transport != v.Peer.Transport:
		return OtherWay
	}
	return SameWay
}

// Judge returns the verdicts of one case, one for each durability at which both
// Mainstem and a peer were measured, in the order in which they appear.
func Judge(rows []*result.Row) []Verdict {
	return judgeGroups(rows, func(r *result.Row) string { return r.Durability })
}

// JudgeServed returns the verdicts of one case on the contenders that answer from another
// process, one for each durability and transport at which both Mainstem and a peer were
// measured: [Judge] does not compare two servers where a library is faster than both.
func JudgeServed(rows []*result.Row) []Verdict {
	served := slices.DeleteFunc(slices.Clone(rows), func(r *result.Row) bool { return !r.Served() })
	return judgeGroups(served, func(r *result.Row) string { return r.Durability + ", " + r.Transport })
}

// judgeGroups compares the best row of ours with the best of the peers in each group of rows.
func judgeGroups(rows []*result.Row, group func(*result.Row) string) []Verdict {
	var verdicts []Verdict
	ranked, seen := Ranked(rows), map[string]bool{}
	for _, r := range rows {
		name := group(r)
		if r.Status != result.OK || seen[name] {
			continue
		}
		seen[name] = true
		best := func(ours bool) *result.Row {
			i := slices.IndexFunc(ranked, func(r *result.Row) bool { return group(r) == name && r.Ours() == ours })
			if i < 0 {
				return nil
			}
			return ranked[i]
		}
		if ours, peer := best(true), best(false); ours != nil && peer != nil {
			verdicts = append(verdicts, judge(ours, peer))
		}
	}
	return verdicts
}

func judge(ours, peer *result.Row) Verdict {
	a, _, more := ours.Values()
	b, _, _ := peer.Values()
	v := Verdict{
		Suite: ours.Suite, Case: ours.Case, Durability: ours.Durability, Ours: ours, Peer: peer,
		Outcome: Even, Times: 1, Comparison: Compare(a, b, DefaultAlpha),
	}
	if v.Comparison.Needed > 0 {
		v.Outcome = Open
		return v
	}
	if !v.Comparison.Different() {
		return v
	}
	v.Times = v.Comparison.Ratio
	v.Outcome = Won
	if (v.Times > 1) == more {
		v.Outcome = Lost
	}
	if v.Times < 1 && v.Times > 0 {
		v.Times = 1 / v.Times
	}
	return v
}

// Ranked returns the rows that were measured, the best median first.
func Ranked(rows []*result.Row) []*result.Row {
	var measured []*result.Row
	for _, r := range rows {
		if r.Status == result.OK {
			measured = append(measured, r)
		}
	}
	slices.SortStableFunc(measured, func(a, b *result.Row) int {
		va, _, more := a.Values()
		vb, _, _ := b.Values()
		order := cmp.Compare(Summarize(va).Median, Summarize(vb).Median)
		if more {
			return -order
		}
		return order
	})
	return measured
}

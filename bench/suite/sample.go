package suite

import (
	"math/rand/v2"
	"slices"
)

// Sample returns up to most of the numbers below n, in order: the first, the last,
// and others that cannot be foreseen: what an answer check looks at when looking at all would
// take longer than what is measured.
func Sample(n, most int) []int {
	if n <= most {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
	picked := []int{0, n - 1}
	for len(picked) < most {
		picked = append(picked, rand.IntN(n))
	}
	slices.Sort(picked)
	return slices.Compact(picked)
}

package alert

import (
	"cmp"
	"slices"
	"sync"

	"github.com/mainstemdev/mainstem"
)

// applied is the set of positions whose records are in the mirror: all up to a position, and
// behind it the batches of this server that the follower has not come to.
//
// A position is added when the gate of the mirror is shut: every query that begins then shows
// its record.
type applied struct {
	sync.Mutex
	prefix mainstem.Position
	ranges [][2]mainstem.Position // ascending, the first not next to prefix
}

// add adds the batch of a receipt: it is newer than all others.
func (a *applied) add(r mainstem.Receipt) {
	a.Lock()
	defer a.Unlock()
	switch {
	case r.Last == 0:
	case r.First == a.prefix+1:
		a.prefix = r.Last
	default:
		a.ranges = append(a.ranges, [2]mainstem.Position{r.First, r.Last})
	}
}

// advance adds everything up to p. It reports whether there is nothing behind p.
func (a *applied) advance(p mainstem.Position) (last bool) {
	a.Lock()
	defer a.Unlock()
	a.prefix = max(a.prefix, p)
	for len(a.ranges) > 0 && a.ranges[0][0] <= a.prefix+1 {
		a.prefix = max(a.prefix, a.ranges[0][1])
		a.ranges = a.ranges[1:]
	}
	return a.prefix == p && len(a.ranges) == 0
}

// has reports whether the record at p is in the mirror.
func (a *applied) has(p mainstem.Position) bool {
	a.Lock()
	defer a.Unlock()
	i, _ := slices.BinarySearchFunc(a.ranges, p, func(r [2]mainstem.Position, p mainstem.Position) int { return cmp.Compare(r[1], p) })
	return p <= a.prefix || i < len(a.ranges) && a.ranges[i][0] <= p
}

// upTo returns the position up to which everything is in the mirror.
func (a *applied) upTo() mainstem.Position {
	a.Lock()
	defer a.Unlock()
	return a.prefix
}

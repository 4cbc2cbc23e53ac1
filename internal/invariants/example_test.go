package invariants_test

import (
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem/internal/invariants"
)

// The sorting test costs more than the code that it guards, so it stands behind
// Enabled: a plain build does not even contain it.
func ExampleCheck() {
	positions := []uint64{1, 2, 5}
	if invariants.Enabled {
		invariants.Check(slices.IsSorted(positions), "positions go back: %v", positions)
	}
	fmt.Println("newest:", positions[len(positions)-1])
	// Output: newest: 5
}

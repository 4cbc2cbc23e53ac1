package suite_test

import (
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

func TestSample(t *testing.T) {
	for n := range 5 {
		all := suite.Sample(n, 4)
		if len(all) != n || !slices.IsSorted(all) || n > 0 && (all[0] != 0 || all[n-1] != n-1) {
			t.Errorf("all of %d numbers are %v", n, all)
		}
	}
	for range 100 {
		few := suite.Sample(1000, 8)
		if len(few) < 2 || len(few) > 8 || few[0] != 0 || few[len(few)-1] != 999 || !slices.IsSorted(few) || len(slices.Compact(slices.Clone(few))) != len(few) {
			t.Fatalf("some of 1000 numbers are %v", few)
		}
	}
}

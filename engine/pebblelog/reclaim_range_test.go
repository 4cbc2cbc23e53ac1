package pebblelog

import (
	"reflect"
	"testing"
)

// TestSpaceRuns joins dropped spaces that have no live one between them.
func TestSpaceRuns(t *testing.T) {
	for _, test := range []struct {
		numbers, live []uint32
		want          []spaceRun
	}{
		{[]uint32{7}, nil, []spaceRun{{7, 7, true}}},
		{[]uint32{7}, []uint32{7}, []spaceRun{{7, 7, false}}},
		{[]uint32{1, 3, 9}, []uint32{5, 12}, []spaceRun{{1, 3, true}, {9, 9, true}}},
		{[]uint32{1, 2, 3}, []uint32{2}, []spaceRun{{1, 1, true}, {2, 2, false}, {3, 3, true}}},
		{[]uint32{2, 3, 4}, []uint32{2, 9}, []spaceRun{{2, 2, false}, {3, 4, true}}},
	} {
		if got := spaceRuns(test.numbers, test.live); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v of %v: %v, want %v", test.numbers, test.live, got, test.want)
		}
	}
}

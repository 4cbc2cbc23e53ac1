package crashtest_test

import (
	"flag"
)

// long makes the tests of this package try more seeds, all places and more kills.
var long = flag.Bool("crash.long", false, "try many more seeds, places and kills: takes an hour")

// seeds returns the seeds to try: short of them by default, many in a long run.
func seeds(short, many uint64) []uint64 {
	n := short
	if *long {
		n = many
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = uint64(i) + 1
	}
	return out
}

package crashtest_test

import (
	"flag"
	"math/rand/v2"
	"testing"
)

// long makes the tests of this package try more seeds, all places and more kills.
var long = flag.Bool("crash.long", false, "try many more seeds, places and kills: takes an hour")

// every is the distance between the places that the crash loops try.
var every = flag.Int("crash.every", 8, "cut the power, fail an operation or damage a file at one of so many places, from a random one on; 1 is all of them, as -crash.long")

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

// sample returns a function that reports whether the place n is one to try: one of
// -crash.every, from a random one on. The messages of failures name the place, which
// -crash.every=1 tries in any case.
func sample(t *testing.T) func(n int) bool {
	step := *every
	if *long {
		step = 1
	}
	if step < 1 {
		t.Fatalf("-crash.every is %d: it must be 1 or more", step)
	}
	first := rand.IntN(step)
	return func(n int) bool { return n%step == first }
}

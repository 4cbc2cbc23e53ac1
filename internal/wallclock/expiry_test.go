package wallclock_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// TestTimesDoNotOverflow compares with numbers that have no limit.
func TestTimesDoNotOverflow(t *testing.T) {
	times := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, 1 << 60, math.MaxInt64 - 1, math.MaxInt64}
	ages := []int64{0, 1, 2, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	last := big.NewInt(math.MaxInt64)
	for _, now := range times {
		for _, age := range ages {
			end := new(big.Int).Add(big.NewInt(now), big.NewInt(age))
			if end.Cmp(last) > 0 {
				end = last
			}
			if got := wallclock.ExpiresAt(now, age); got != end.Int64() {
				t.Errorf("ExpiresAt(%d, %d) = %d, want %v", now, age, got, end)
			}
			for _, written := range times {
				had := new(big.Int).Sub(big.NewInt(now), big.NewInt(written))
				want := age > 0 && had.Cmp(big.NewInt(age)) > 0
				if got := wallclock.TooOld(written, now, age); got != want {
					t.Errorf("TooOld(%d, %d, %d) = %t, want %t", written, now, age, got, want)
				}
			}
		}
	}
}

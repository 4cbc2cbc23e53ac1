package event

import (
	"math"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	cases := []struct {
		n            int
		first, limit time.Duration
		want         time.Duration
	}{
		{1, time.Second, time.Minute, time.Second},
		{2, time.Second, time.Minute, 2 * time.Second},
		{6, time.Second, time.Minute, 32 * time.Second},
		{7, time.Second, time.Minute, time.Minute},
		{1 << 30, time.Second, time.Minute, time.Minute},
		{1, time.Hour, time.Minute, time.Minute},
		{math.MaxInt, time.Hour, 1000 * time.Hour, 1000 * time.Hour},
	}
	for _, c := range cases {
		if got := backoff(c.n, c.first, c.limit); got != c.want {
			t.Errorf("pause %d of %v up to %v: %v: want %v", c.n, c.first, c.limit, got, c.want)
		}
	}
}

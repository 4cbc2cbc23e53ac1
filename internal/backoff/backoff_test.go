package backoff

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		p    Policy
		n    int
		want time.Duration
	}{
		{Policy{First: 50, Max: 1000}, 0, 50},
		{Policy{First: 50, Max: 1000}, 1, 50},
		{Policy{First: 50, Max: 1000}, 2, 100},
		{Policy{First: 50, Max: 1000}, 5, 800},
		{Policy{First: 50, Max: 1000}, 6, 1000},
		{Policy{First: 50, Max: 1000}, math.MaxInt, 1000},
		{Policy{First: 1, Max: math.MaxInt64}, 1000, math.MaxInt64},
		{Policy{First: math.MaxInt64 - 1, Max: math.MaxInt64}, 3, math.MaxInt64},
		{Policy{First: 50}, 9, 50},
		{Policy{First: 50, Max: 10}, 1, 10},
		{Policy{Max: 10}, math.MaxInt, 0},
	} {
		if got := c.p.Delay(c.n); got != c.want {
			t.Errorf("%+v: pause %d is %d, want %d", c.p, c.n, got, c.want)
		}
	}
}

func TestJitter(t *testing.T) {
	p := Policy{First: time.Second, Max: time.Minute, Jitter: 0.5}
	seen := make(map[time.Duration]bool)
	for range 100 {
		d := p.Delay(2)
		if d <= time.Second || d > 2*time.Second {
			t.Fatalf("the second pause is %v, want more than 1s and at most 2s", d)
		}
		seen[d] = true
	}
	if len(seen) < 50 {
		t.Errorf("100 pauses have %d lengths: they are not random", len(seen))
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Policy{First: time.Second, Max: time.Minute}
		began := time.Now()
		if !p.Wait(t.Context(), 3) {
			t.Error("a pause reports that its context has ended")
		}
		if d := time.Since(began); d != 4*time.Second {
			t.Errorf("the third pause took %v, want 4s", d)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if p.Wait(ctx, 100) {
			t.Error("a pause reports that it was waited for, though its context has ended")
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("the pause took %v, want the 1s until the end of the context", d)
		}
	})
}

// A context that has ended wins over a pause that is over at once.
func TestWaitEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if Sleep(ctx, 0) {
			t.Fatal("a pause of nothing reports that it was waited for, though its context had ended")
		}
	}
}

// A pause that may end early says so, whatever ended it.
func TestSleepOr(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{}, 1)
		begin := time.Now()
		if !SleepOr(t.Context(), done, time.Hour) || time.Since(begin) != time.Hour {
			t.Errorf("nothing came, and it ended after %v", time.Since(begin))
		}
		begin = time.Now()
		time.AfterFunc(time.Minute, func() { done <- struct{}{} })
		if SleepOr(t.Context(), done, time.Hour) || time.Since(begin) != time.Minute {
			t.Errorf("something came after a minute, and it ended after %v", time.Since(begin))
		}
		close(done)
		if SleepOr(t.Context(), done, time.Hour) || time.Since(begin) != time.Minute {
			t.Errorf("done is closed, and it ended after %v", time.Since(begin))
		}
	})
}

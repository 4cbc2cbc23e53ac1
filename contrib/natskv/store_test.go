package natskv

import (
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

// The server's time goes on while the clock of this machine is set forward and back.
func TestClockIgnoresSteps(t *testing.T) {
	var ours testkit.Clock
	c := newClock()
	c.elapsed = ours.Monotonic
	server := testkit.Start.Add(-time.Minute)
	want := func(d time.Duration) {
		t.Helper()
		if got := time.Unix(0, c.now()); !got.Equal(server.Add(d)) {
			t.Errorf("the server's clock shows %v; want %v", got, server.Add(d))
		}
	}
	before := ours.Now()
	ours.Advance(2 * time.Second) // the server has read its clock in the middle of it
	c.learn(before, server, ours.Now())
	want(time.Second)
	ours.Set(ours.Now().Add(30 * time.Second))
	want(time.Second)
	ours.Set(ours.Now().Add(-time.Hour))
	ours.Advance(3 * time.Second)
	want(4 * time.Second)
	c.learn(ours.Now(), server, ours.Now())
	want(0)
	c.learn(ours.Now(), time.Time{}, ours.Now()) // an answer without a time
	want(0)
}

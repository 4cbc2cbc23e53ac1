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
	asked := ours.Monotonic()
	ours.Advance(2 * time.Second) // the server has read its clock in the middle of it
	c.learn(asked, server)
	want(time.Second)
	ours.Set(ours.Now().Add(30 * time.Second))
	want(time.Second)
	ours.Set(ours.Now().Add(-time.Hour))
	ours.Advance(3 * time.Second)
	want(4 * time.Second)
	c.learn(ours.Monotonic(), server)
	want(0)
	c.learn(ours.Monotonic(), time.Time{}) // an answer without a time
	want(0)
}

// An answer that took long, on the way there or on the way back, does not move a clock that is
// known better; one that it cannot be true for does.
func TestSlowAnswersDoNotMoveTheClock(t *testing.T) {
	const ahead = time.Minute // of the server's clock
	var ours testkit.Clock
	c := newClock()
	c.elapsed = ours.Monotonic
	server := func() time.Time { return ours.Now().Add(ahead) }
	// answer has the server asked, which reads its clock after there; its answer takes back.
	answer := func(there, back, set time.Duration) {
		asked := ours.Monotonic()
		ours.Advance(there)
		at := server().Add(set)
		ours.Advance(back)
		c.learn(asked, at)
	}
	want := func(what string, set, within time.Duration) {
		t.Helper()
		if off := time.Unix(0, c.now()).Sub(server().Add(set)); off.Abs() > within {
			t.Errorf("%s: the server's clock is shown with an error of %v; want %v at most", what, off, within)
		}
	}
	answer(time.Second, 0, 0)
	want("a first answer", 0, time.Second/2)
	answer(time.Millisecond, time.Millisecond, 0)
	want("a quick answer", 0, time.Millisecond)
	answer(0, 5*time.Second, 0)
	want("an answer that came late", 0, 10*time.Millisecond)
	answer(5*time.Second, 0, 0)
	want("an answer to a question that came late", 0, 20*time.Millisecond)
	answer(time.Second, time.Second, time.Hour)
	want("a slow answer of a clock that was set", time.Hour, time.Second)
	answer(time.Millisecond, time.Millisecond, time.Hour)
	want("a quick one", time.Hour, time.Millisecond)
	ours.Advance(time.Hour)
	answer(time.Millisecond, time.Millisecond, time.Hour+time.Second)
	want("a quick one of a clock that has run faster since", time.Hour+time.Second, time.Millisecond)
}

package testkit

import (
	"sync"
	"time"
)

// Start is what a new [Clock] shows.
var Start = time.Unix(1_700_000_000, 0)

// Clock is a wall clock, and a monotonic one, that move only when they are told to. The
// zero value shows [Start]. Many goroutines may use it.
type Clock struct {
	mu struct {
		sync.Mutex
		wall time.Duration // since Start
		mono time.Duration
	}
}

// Now returns the time of the wall clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Start.Add(c.mu.wall)
}

// Monotonic returns the time of the monotonic clock, which begins at 0.
func (c *Clock) Monotonic() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.mono
}

// Advance lets d go by on both clocks.
func (c *Clock) Advance(d time.Duration) { c.move(d, d) }

// Set sets the wall clock to t. No time goes by on the monotonic one.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.wall = t.Sub(Start)
}

// Leap moves the wall clock by d, forward or back, while a nanosecond goes by on both:
// the monotonic clock tells a reading from before from one after it.
func (c *Clock) Leap(d time.Duration) { c.move(d+1, 1) }

func (c *Clock) move(wall, mono time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.wall += wall
	c.mu.mono += mono
}

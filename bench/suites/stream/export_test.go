package stream

import "time"

// SetPatience makes the suite wait for less than [Patience], until the function that
// it returns is called.
func SetPatience(d time.Duration) (back func()) {
	patience = d
	return func() { patience = Patience }
}

package footprint

import "time"

// Hurry makes the suite wait less, until the function that it returns is called.
func Hurry() (back func()) {
	every, unchanged := lookEvery, unchangedFor
	lookEvery, unchangedFor = time.Millisecond, 5*time.Millisecond
	return func() { lookEvery, unchangedFor = every, unchanged }
}

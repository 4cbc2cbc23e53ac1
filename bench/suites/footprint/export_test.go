package footprint

import "time"

// Hurry makes the suite wait less, until the function that it returns is called.
func Hurry() (back func()) {
	every, settled := lookEvery, settledFor
	lookEvery, settledFor = time.Millisecond, 5*time.Millisecond
	return func() { lookEvery, settledFor = every, settled }
}

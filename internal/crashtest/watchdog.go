package crashtest

import (
	"fmt"
	"runtime"
	"time"
)

// Patience is how long anything in these tests may take before it counts as hung.
// It is no measure of speed: a busy machine needs a tiny part of it.
const Patience = 15 * time.Second

// Within runs f and returns its error, or an error with the stacks of all
// goroutines if f does not return within [Patience]. Then f is left behind.
func Within(what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		stacks := make([]byte, 1<<20)
		return fmt.Errorf("%s hangs:\n%s", what, stacks[:runtime.Stack(stacks, true)])
	}
}

package crashtest

import (
	"fmt"
	"runtime"
	"time"
)

// Patience is how long anything in these tests may take before it counts as hung.
// It is no measure of speed: a busy machine needs a tiny part of it.
const Patience = 60 * time.Second

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

// Eventually asks f again and again until it returns nil, and returns its last
// error if that has not happened within [Patience].
func Eventually(f func() error) error {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	end := time.NewTimer(Patience)
	defer end.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-end.C:
			return err
		}
	}
}

// Package testkit holds what tests of many packages need: to wait until something is
// so, without a fixed sleep, to look at what was logged, to move a clock, and to connect within a
// bubble.
package testkit

import (
	"testing"
	"time"
)

// Patience is how long [Eventually] and [Succeeds] wait. It only bounds a test that
// hangs: it is long enough for a machine that does many other things.
const Patience = time.Minute

// interval is the time between two calls of what is waited for.
const interval = 2 * time.Millisecond

// Rounds returns n, or a quarter of it, at least 1, in a short run: with the race detector everything takes many times as
// long, and the whole runs without it.
func Rounds(n int) int {
	if testing.Short() {
		return max(n/4, 1)
	}
	return n
}

// Eventually calls ok, from the calling goroutine, until it returns true. It ends the
// test if that takes longer than [Patience]. What names what is waited for.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !poll(ok) {
		t.Fatalf("not after %v: %s", Patience, what)
	}
}

// Succeeds calls f, from the calling goroutine, until it returns nil. It ends the test
// with the last error if that takes longer than [Patience]. What names what is waited
// for.
func Succeeds(t testing.TB, what string, f func() error) {
	t.Helper()
	var err error
	if !poll(func() bool { err = f(); return err == nil }) {
		t.Fatalf("not after %v: %s: %v", Patience, what, err)
	}
}

func poll(ok func() bool) bool {
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return ok()
		}
	}
	return true
}

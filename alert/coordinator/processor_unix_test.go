//go:build unix

package coordinator

import (
	"syscall"
	"testing"
	"time"
)

// processorTime returns the time that processors have spent in this process: on a busy
// machine it says more than the clock.
func processorTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

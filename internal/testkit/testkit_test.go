package testkit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test whose failure is looked at.
type failing struct {
	testing.TB
	message string
}

func (*failing) Helper()                          {}
func (f *failing) Fatalf(format string, a ...any) { f.message = fmt.Sprintf(format, a...) }

func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, calls := new(failing), 0
		Eventually(f, "three calls", func() bool { calls++; return calls == 3 })
		if f.message != "" || calls != 3 {
			t.Errorf("after %d calls: %q, want 3 calls and no failure", calls, f.message)
		}
		began := time.Now()
		Eventually(f, "a miracle", func() bool { return false })
		if !strings.Contains(f.message, "a miracle") || time.Since(began) != Patience {
			t.Errorf("fails with %q after %v, want what is waited for, after %v", f.message, time.Since(began), Patience)
		}
	})
}

func TestSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, calls := new(failing), 0
		errEarly := errors.New("too early")
		Succeeds(f, "two calls", func() error {
			if calls++; calls < 2 {
				return errEarly
			}
			return nil
		})
		if f.message != "" || calls != 2 {
			t.Errorf("after %d calls: %q, want 2 calls and no failure", calls, f.message)
		}
		Succeeds(f, "a miracle", func() error { return errEarly })
		if !strings.Contains(f.message, "a miracle: too early") {
			t.Errorf("fails with %q, want the last error", f.message)
		}
	})
}

func TestRounds(t *testing.T) {
	for n, want := range map[int]int{100: 25, 4: 1, 1: 1} {
		if !testing.Short() {
			want = n
		}
		if got := Rounds(n); got != want {
			t.Errorf("%d of %d, want %d", got, n, want)
		}
	}
}

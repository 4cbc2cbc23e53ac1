package testengines

import (
	"context"
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
)

// finish checks and closes log at the end of a test, and fails the test on
// problems. A log that the test itself closed cannot be checked any more.
func finish(t testing.TB, log mainstem.Log) {
	t.Helper()
	if c, ok := log.(mainstem.Checker); ok {
		_, err := c.Check(context.Background(), func(p mainstem.Problem) {
			t.Errorf("check after the test: %s: %s", p.Where, p.What)
		})
		if err != nil && !errors.Is(err, mainstem.ErrClosed) {
			t.Errorf("check after the test: %v", err)
		}
	}
	if err := log.Close(); err != nil {
		t.Errorf("close after the test: %v", err)
	}
}

package alert

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/alert"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestContenders runs every contender in every case, with few operations.
func TestContenders(t *testing.T) {
	for _, f := range Factories() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			f.ScaleAlerts = 200
			ran := 0
			for _, e := range alert.Entries(f) {
				err := runnertest.Try(t, &e, 2, 1)
				switch {
				case errors.Is(err, suite.ErrSkip):
					t.Logf("%s: %v", e.Name(), err)
				case err != nil:
					t.Error(err)
				default:
					ran++
				}
			}
			if (f.Name == "omnibus") != (ran == 0) {
				t.Errorf("ran in %d cases", ran)
			}
		})
	}
}

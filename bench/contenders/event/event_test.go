package event

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/event"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testpostgres.Main(m)) }

// TestContenders runs every contender in every case, with few operations; without the
// scale tests, which seed much, where each append goes to a server. In short mode
// there are no scale tests, and of cases that differ in size one.
func TestContenders(t *testing.T) {
	addresses := map[string]string{engines.PostgreSQL: testpostgres.FastDB(t)}
	for _, f := range Factories() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			ran := 0
			f.ScaleEvents = 200
			for _, e := range event.Entries(f) {
				if e.Scale && remote(f.Name) || testing.Short() && (e.Scale || slices.Contains(otherSizes, e.Case)) {
					continue
				}
				t.Run(e.Case, func(t *testing.T) {
					env := runnertest.Env(t, addresses)
					err := suite.Try(t.Context(), &e, env, 2, 3)
					switch {
					case errors.Is(err, suite.ErrSkip):
						t.Log(err)
					case err != nil:
						t.Error(err)
					default:
						ran++
					}
				})
			}
			if ran < 12 {
				t.Errorf("ran in %d cases", ran)
			}
		})
	}
}

// otherSizes are cases that do what another does, with more or less of it.
var otherSizes = []string{"append/batch-5", "append/batch-10", "append/batch-50", "append/32-workers", "load/10", "load/100", "load/10000", "mixed/write-80"}

// remote reports whether a contender talks to a server.
func remote(name string) bool {
	for _, part := range []string{"nats", "remote", "postgres"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

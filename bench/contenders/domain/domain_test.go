package domain

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/domain"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testpostgres.Main(m)) }

func BenchmarkContenders(b *testing.B) { domain.Run(b, Factories()...) }

// Every contender runs in every case, with few operations; in short mode those in the process only, without
// the cases that are long.
func TestContenders(t *testing.T) {
	addresses := map[string]string{engines.PostgreSQL: testpostgres.FastDB(t)}
	for _, f := range Factories() {
		if testing.Short() && f.Transport != suite.InProcess {
			continue
		}
		f.ScaleCommands = 200
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			ran := 0
			for _, e := range domain.Entries(f) {
				if testing.Short() && (strings.HasSuffix(e.Case, "/10000") || e.Case == "scale/load") {
					continue
				}
				t.Run(e.Case, func(t *testing.T) {
					switch err := suite.Try(t.Context(), &e, runnertest.Env(t, addresses), 2, 3); {
					case errors.Is(err, suite.ErrSkip):
						t.Log(err)
					case err != nil:
						t.Error(err)
					default:
						ran++
					}
				})
			}
			if ran < 14 {
				t.Errorf("ran in %d cases", ran)
			}
		})
	}
}

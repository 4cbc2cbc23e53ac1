package kv

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/internal/racetest"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testpostgres.Main(m)) }

// similar are cases that do what others do: with larger values, or on more keys.
var similar = []string{"set-get-large", "delete-large", "get/spread", "set/32-clients"}

// TestContenders runs every contender in every case, with few operations; in short
// mode not in those that are similar to others. Those that need a server of others
// which is not here are the only ones left out.
func TestContenders(t *testing.T) {
	addresses := map[string]string{engines.PostgreSQL: testpostgres.FastDB(t)}
	for _, f := range Factories() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			ran := 0
			for _, e := range kv.Entries(f) {
				if testing.Short() && (e.Scale || slices.Contains(similar, e.Case)) {
					continue
				}
				t.Run(e.Case, func(t *testing.T) {
					env := &suite.Env{Dir: racetest.Dir(t), Quick: true, Addresses: addresses, Log: slog.New(slog.DiscardHandler)}
					err := suite.Try(t.Context(), &e, env, 2, 5)
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
			if strings.HasPrefix(f.Name, "redis-") != (ran == 0) {
				t.Errorf("ran in %d cases", ran)
			}
		})
	}
}

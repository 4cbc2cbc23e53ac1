package kv

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testpostgres.Main(m)) }

// similar are cases that do what others do: with larger values, or on more keys.
var similar = []string{"set-get-large", "delete-large", "get/spread", "set/32-clients"}

// needsServer reports whether a contender runs only on a server of others.
func needsServer(f kv.Factory) bool {
	return strings.HasPrefix(f.Name, "redis-") || strings.HasPrefix(f.Name, "etcd-")
}

// TestContenders runs every contender in every case, with few operations; in short
// mode not in those that are similar to others. Those that need a server of others
// are skipped where [runnertest.Servers] does not name one, or one of another durability;
// they say so. No others may be.
func TestContenders(t *testing.T) {
	addresses := runnertest.Addresses(t)
	addresses[engines.PostgreSQL] = testpostgres.FastDB(t)
	for _, f := range Factories() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			if f.Skip != nil {
				if reason := f.Skip(&suite.Env{Addresses: addresses}); reason != "" {
					t.Logf("%s, or to this test in the variable %s", reason, runnertest.Servers)
					if !needsServer(f) {
						t.Error("it needs no server of others")
					}
					return
				}
			}
			ran, skipped := 0, error(nil)
			for _, e := range kv.Entries(f) {
				if testing.Short() && (e.Scale || slices.Contains(similar, e.Case)) {
					continue
				}
				t.Run(e.Case, func(t *testing.T) {
					env := runnertest.Env(t, addresses)
					err := suite.Try(t.Context(), &e, env, 2, 5)
					switch {
					case errors.Is(err, suite.ErrSkip):
						skipped = err
						t.Log(err)
					case err != nil:
						t.Error(err)
					default:
						ran++
					}
				})
			}
			if ran == 0 && !strings.HasPrefix(f.Name, "redis-") { // the server may have the durability of another row
				t.Errorf("it ran in no case: %v", skipped)
			}
		})
	}
}

package engines

import (
	"fmt"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testpostgres"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testpostgres.Main(m)) }

// TestEngines opens every engine, writes, and opens those that restart once more.
func TestEngines(t *testing.T) {
	env := &suite.Env{Dir: runnertest.Dir(t), Addresses: map[string]string{PostgreSQL: testpostgres.FastDB(t)}, Log: slog.New(slog.DiscardHandler)}
	names := map[string]bool{}
	for _, e := range All() {
		if names[e.Name] {
			t.Errorf("two engines are called %s", e.Name)
		}
		names[e.Name] = true
		t.Run(e.Name, func(t *testing.T) {
			if e.Skip != nil {
				if reason := e.Skip(env); reason != "" {
					t.Fatal(reason)
				}
				if e.Skip(&suite.Env{}) == "" {
					t.Error("it is not skipped without an address")
				}
			}
			dir := runnertest.Dir(t)
			use(t, e, env, dir, 1)
			if e.Restarts {
				use(t, e, env, dir, 2)
			}
		})
	}
}

// use commits a record, which must get this version.
func use(t *testing.T, e Engine, env *suite.Env, dir string, version mainstem.Version) {
	t.Helper()
	log, err := e.Open(t.Context(), env, dir)
	if err != nil {
		t.Fatal(err)
	}
	b := mainstem.NewBatch()
	b.Ensure("space", mainstem.Policy{})
	b.Put("space", []byte("key"), []byte("value"))
	receipt, err := log.Commit(t.Context(), b)
	if err != nil || len(receipt.Versions) != 1 || receipt.Versions[0] != version {
		t.Errorf("commit: %+v, %v", receipt, err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

func ExampleAll() {
	for _, e := range All()[:2] {
		fmt.Println(e.Name, e.Durability)
	}
	// Output:
	// mainstem-pebble-memory memory
	// mainstem-pebble-os os
}

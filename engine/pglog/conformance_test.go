package pglog_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// small are limits that the suite reaches quickly.
var small = mainstem.Limits{MaxValue: 256 << 10, MaxBatchBytes: 1 << 20, MaxBatchWrites: 2000}

// TestConformance gives every case a schema of its own in one database.
func TestConformance(t *testing.T) {
	t.Parallel()
	clock := enginetest.NewClock()
	url := testpostgres.FastDB(t)
	var schemas sync.Map // mainstem.Log -> string
	var last atomic.Int64
	open := func(t *testing.T, schema string) mainstem.Log {
		log := openLog(t, url, &pglog.Options{Schema: schema, Now: clock.Now, Monotonic: clock.Monotonic, Limits: small})
		schemas.Store(mainstem.Log(log), schema)
		return log
	}
	f := enginetest.All()
	f.Patience = testkit.Patience
	f.Clock, f.Limits = clock, small
	f.Programs, f.Steps = 10, 40
	f.SteadyClock = true // while a jump is held, tombstones of what was written since come later
	f.Reopen = func(t *testing.T, log mainstem.Log) mainstem.Log {
		schema, _ := schemas.LoadAndDelete(log)
		return open(t, schema.(string))
	}
	enginetest.Run(t, f, func(t *testing.T) mainstem.Log { return open(t, fmt.Sprint("log", last.Add(1))) })
}

func openLog(t testing.TB, url string, o *pglog.Options) *pglog.Log {
	t.Helper()
	log, err := pglog.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

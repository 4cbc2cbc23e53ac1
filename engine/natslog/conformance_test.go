package natslog_test

import (
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// more runs that many more random programs in each suite.
var more = flag.Int("programs", 0, "random programs to run in addition")

// small are limits that the suite reaches quickly. A batch of the largest size takes
// two messages of a server with its default max_payload: an atomic batch publish.
var small = mainstem.Limits{MaxValue: 256 << 10, MaxBatchBytes: 1 << 20, MaxBatchWrites: 2000}

// features are what the engine offers: everything but snapshots and backups.
func features(clock *enginetest.Clock) enginetest.Features {
	f := enginetest.All()
	f.Patience = testkit.Patience
	f.Snapshot = false
	f.SteadyClock = true // clocks of processes may differ by a minute
	f.Clock, f.Limits = clock, small
	return f
}

// streams opens logs on the servers at url, each on a stream of its own, and opens
// them again.
func streams(url string, o natslog.Options) (open func(*testing.T) mainstem.Log, reopen func(*testing.T, mainstem.Log) mainstem.Log) {
	var number atomic.Int64
	var names sync.Map // log -> stream
	at := func(t *testing.T, name string) mainstem.Log {
		t.Helper()
		o := o
		o.Stream = name
		log, err := natslog.Open(url, &o)
		if err != nil {
			t.Fatal(err)
		}
		names.Store(log, name)
		return log
	}
	open = func(t *testing.T) mainstem.Log {
		t.Helper()
		return at(t, fmt.Sprint("LOG", number.Add(1)))
	}
	reopen = func(t *testing.T, log mainstem.Log) mainstem.Log {
		t.Helper()
		name, _ := names.LoadAndDelete(log)
		return at(t, name.(string))
	}
	return open, reopen
}

func TestConformance(t *testing.T) {
	server := testnats.NewServer(t, nil)
	clock := enginetest.NewClock()
	f := features(clock)
	f.Programs = 15 + *more
	open, reopen := streams(server.URL(), natslog.Options{Now: clock.Now, Monotonic: clock.Monotonic, Limits: small, SweepEvery: -1})
	f.Reopen = reopen
	enginetest.Run(t, f, open)
}

// again runs the suite once more, on other servers or with other options. Without
// testengines.Servers, and under -short, which CI asks for with the race detector, it
// runs only the random programs.
func again(t *testing.T, f enginetest.Features, open func(t *testing.T) mainstem.Log) {
	if testing.Short() || !testengines.WithServers(t, "the cases of the suite") {
		enginetest.RunPrograms(t, f, open)
		return
	}
	enginetest.Run(t, f, open)
}

// Dead messages are deleted and frames repacked as soon as possible, nothing is kept in
// memory but the state, and every read asks the leader first.
func TestConformanceTidy(t *testing.T) {
	t.Parallel()
	server := testnats.NewServer(t, nil)
	clock := enginetest.NewClock()
	f := features(clock)
	f.Programs = 15 + *more
	open, reopen := streams(server.URL(), natslog.Options{
		Now: clock.Now, Monotonic: clock.Monotonic, Limits: small, SweepEvery: -1, Grace: time.Nanosecond, CacheBytes: 1, Latest: true, Memory: true,
	})
	f.Reopen = reopen
	again(t, f, open)
}

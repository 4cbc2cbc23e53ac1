package remotelog_test

import (
	"context"
	"io"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// again runs the suite once more, over another log or another protocol. Without
// testengines.Servers, and under -short, it runs only the random programs. CI asks for
// -short with the race detector: which goroutines there are depends neither on the log
// behind the server nor on how messages are written, and the tests of followers run over
// every protocol anyway.
func again(t *testing.T, f enginetest.Features, open func(t *testing.T) mainstem.Log) {
	if testing.Short() || !testengines.WithServers(t, "the cases of the suite") {
		enginetest.RunPrograms(t, f, open)
		return
	}
	enginetest.Run(t, f, open)
}

// small are limits that the suite reaches quickly.
var small = mainstem.Limits{MaxValue: 256 << 10, MaxBatchBytes: 1 << 20, MaxBatchWrites: 2000}

// The whole suite, over the protocol that programs use by default, with a server that
// is stopped and started again with its log.
func TestConformance(t *testing.T) {
	clock := enginetest.NewClock()
	options := &pebblelog.Options{Now: clock.Now, Monotonic: clock.Monotonic, Limits: small}
	var restarts sync.Map // remote log -> func(*testing.T) mainstem.Log
	var start func(t *testing.T, dir string) mainstem.Log
	start = func(t *testing.T, dir string) mainstem.Log {
		behind := must(t)(pebblelog.Open(dir, options))
		s := serve(t, behind, &rpc.Options{Limits: small})
		remote := open(t, s.URL, nil)
		stop := sync.OnceFunc(func() {
			s.stop()
			if err := behind.Close(); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(stop)
		log := &swept{remote, behind}
		restarts.Store(log, func(t *testing.T) mainstem.Log {
			stop()
			return start(t, dir)
		})
		return log
	}
	f := enginetest.All()
	f.Patience = testkit.Patience
	f.Clock, f.Limits = clock, small
	f.Programs = 12
	f.Reopen = func(t *testing.T, log mainstem.Log) mainstem.Log {
		restart, _ := restarts.LoadAndDelete(log)
		return restart.(func(*testing.T) mainstem.Log)(t)
	}
	f.Restore = func(t *testing.T, backup io.Reader) mainstem.Log {
		dir := t.TempDir()
		if err := pebblelog.Restore(t.Context(), backup, dir); err != nil {
			t.Fatal(err)
		}
		return start(t, dir)
	}
	enginetest.Run(t, f, func(t *testing.T) mainstem.Log { return start(t, t.TempDir()) })
}

// The suite over the log that the suite itself takes for the truth: what fails here
// is the fault of this package or of the server.
func TestConformanceOverModel(t *testing.T) {
	f := enginetest.All()
	f.Patience = testkit.Patience
	f.Clock, f.Limits = enginetest.NewClock(), small
	f.Programs = 12
	again(t, f, func(t *testing.T) mainstem.Log {
		behind := model.New(&model.Options{Now: f.Clock.Now, Monotonic: f.Clock.Monotonic, Limits: small})
		remote := open(t, serve(t, behind, &rpc.Options{Limits: small}).URL, nil)
		return struct { // the model has no backup
			mainstem.Log
			mainstem.Snapshotter
			mainstem.Checker
			mainstem.ClockKeeper
			sweeper
		}{remote, remote, remote, remote, behind}
	})
}

// The same promises over every other protocol.
func TestConformanceProtocols(t *testing.T) {
	for name, o := range map[string]*remotelog.Options{
		"connect":            {Transport: remotelog.RPC},
		"connect JSON HTTP1": {HTTP1: true, JSON: true},
		"grpc gzip":          {Protocol: remotelog.GRPC, Compression: true},
		"grpc-web HTTP1":     {Protocol: remotelog.GRPCWeb, HTTP1: true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := enginetest.NewClock()
			f := enginetest.All()
			f.Patience = testkit.Patience
			f.Clock, f.Limits = clock, small
			f.Programs, f.Steps = 3, 40
			f.Restore = func(t *testing.T, backup io.Reader) mainstem.Log {
				dir := t.TempDir()
				if err := pebblelog.Restore(t.Context(), backup, dir); err != nil {
					t.Fatal(err)
				}
				return remote(t, must(t)(pebblelog.Open(dir, &pebblelog.Options{Now: clock.Now, Monotonic: clock.Monotonic, Limits: small})), o)
			}
			again(t, f, func(t *testing.T) mainstem.Log {
				return remote(t, must(t)(pebblelog.OpenMemory(&pebblelog.Options{Now: clock.Now, Monotonic: clock.Monotonic, Limits: small})), o)
			})
		})
	}
}

// remote serves behind, which it closes when the test ends, and returns a client.
func remote(t *testing.T, behind *pebblelog.Log, o *remotelog.Options) mainstem.Log {
	t.Helper()
	t.Cleanup(func() {
		if err := behind.Close(); err != nil {
			t.Error(err)
		}
	})
	s := serve(t, behind, &rpc.Options{Limits: small, Compression: o.Compression})
	return &swept{open(t, s.URL, o), behind}
}

// sweeper does background work when the suite asks for it, which is not a part of
// the contract.
type sweeper interface{ Sweep(context.Context) error }

// swept is a remote log with the sweeper of the engine behind it.
type swept struct {
	*remotelog.Log
	sweeper
}

func must(t *testing.T) func(l *pebblelog.Log, err error) *pebblelog.Log {
	return func(l *pebblelog.Log, err error) *pebblelog.Log {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

package alert

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Name is the name of the suite.
const Name = "alert"

// DefaultScaleAlerts is how many alerts the scale test inserts.
const DefaultScaleAlerts = 100_000

// workload is a case.
type workload struct {
	name, about string
	items       int
	multi       bool
	fixed       int
	scale       bool
	start       func(ctx context.Context, b *fixture) (*suite.Round, error)
}

// workloads are the cases, in the order in which they are shown.
func workloads(scaleAlerts int) []workload {
	var all []workload
	for _, way := range []struct {
		suffix, about string
		multi         bool
	}{
		{"single", "one client", false},
		{"multi", "ten clients that share them", true},
	} {
		all = append(all,
			workload{name: "insert/" + way.suffix, about: "insert 100 new alerts, a statement each, into two clusters; " + way.about, items: inserts, multi: way.multi, start: startInsert(false, way.multi)},
			workload{name: "insert-again/" + way.suffix, about: "insert 100 alerts that are there already, a statement each, into two clusters; " + way.about, items: inserts, multi: way.multi, start: startInsert(true, way.multi)},
			workload{name: "select-10x100/" + way.suffix, about: "100 selects that find 10 alerts in each of two clusters; " + way.about, items: 100, multi: way.multi, start: startSelect(10, 100, way.multi)},
			workload{name: "select-100x10/" + way.suffix, about: "10 selects that find 100 alerts in each of two clusters; " + way.about, items: 10, multi: way.multi, start: startSelect(100, 10, way.multi)},
		)
	}
	return append(all, workload{name: "scale/insert", about: "insert 100,000 new alerts, a statement each, into two clusters; ten clients", items: inserts, multi: true,
		fixed: max(scaleAlerts/inserts, 1), scale: true, start: startInsert(false, true)})
}

// Entries returns the entries of the contenders: each in every case.
func Entries(factories ...Factory) []suite.Entry {
	var entries []suite.Entry
	for i := range workloads(DefaultScaleAlerts) {
		for _, f := range factories {
			alerts := f.ScaleAlerts
			if alerts == 0 {
				alerts = DefaultScaleAlerts
			}
			entries = append(entries, entry(workloads(alerts)[i], f))
		}
	}
	return entries
}

// Run runs the contenders as Go benchmarks.
func Run(b *testing.B, factories ...Factory) { suite.Bench(b, Entries(factories...)) }

// RunScale runs the scale test as a Go benchmark.
func RunScale(b *testing.B, factories ...Factory) { suite.BenchScale(b, Entries(factories...)) }

func entry(w workload, f Factory) suite.Entry {
	e := suite.Entry{
		Suite: Name, Case: w.name, Contender: f.Name, Durability: f.Durability, Transport: f.Transport, Address: f.Address, About: w.about, Note: f.Note,
		Op: "statement", Items: w.items, Fixed: w.fixed, Scale: w.scale, Skip: f.Skip,
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			server, err := f.Open(ctx, env, env.Dir)
			if err != nil {
				return nil, err
			}
			round, err := w.start(ctx, &fixture{server: server})
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %w", f.Name, err), server.Close())
			}
			round.Close = server.Close
			return round, nil
		},
	}
	if w.multi {
		e.Clients = clients
	}
	return e
}

package domain

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Name is the name of the suite.
const Name = "domain"

const (
	scaleCommands = 1_000_000
	scaleEvents   = 100_000
	scaleLoads    = 10
	workers       = 8
)

// SnapshotOf is how many items an order has when it is saved with a snapshot.
const SnapshotOf = 1001

// workload is a case.
type workload struct {
	name, about string
	op          string
	items       int
	clients     int
	fixed       int
	scale       bool
	start       func(b *fixture) *suite.Round
}

func workloads() []workload {
	return slices.Concat(aggregates(), commands())
}

func aggregates() []workload {
	var all []workload
	for _, n := range []int{1, 5, 10, 50} {
		all = append(all, workload{name: fmt.Sprintf("aggregate/save/%d", n), op: "event", items: n, start: startSave(n),
			about: fmt.Sprintf("make a new order of %d items, and save it", n)})
	}
	for _, n := range []int{10, 100, 1000, 10_000} {
		all = append(all, workload{name: fmt.Sprintf("aggregate/load/%d", n), op: "event", items: n, start: startLoad(n, false),
			about: fmt.Sprintf("make an order of all its %d events", n)})
	}
	return append(all,
		workload{name: "aggregate/snapshot", op: "aggregate", start: startLoad(SnapshotOf, true), about: "make an order of 1,001 events of a snapshot"},
		workload{name: "aggregate/life-cycle", op: "aggregate", start: startLifeCycle, about: "save a new order of three items, load it, add an item, and save it"},
	)
}

func commands() []workload {
	const nothing = "send a command to a handler that does nothing"
	return []workload{
		{name: "command/bare", op: "command", start: startDispatch(Bare, 1), about: nothing},
		{name: "command/validation", op: "command", start: startDispatch(Validation, 1), about: nothing + ", through validation"},
		{name: "command/pipeline", op: "command", start: startDispatch(Four, 1), about: nothing + ", through validation, recovery, correlation and causation"},
		{name: "command/aggregate", op: "command", start: startDispatch(Aggregate, 1), about: "send a command that loads an order of one event, adds an item, and saves it"},
		{name: "command/full", op: "command", start: startDispatch(Full, 1), about: "the same through the pipeline, with a record of the command's ID and a row in a trail"},
		{name: "command/8-workers", op: "command", clients: workers, start: startDispatch(Aggregate, workers), about: "send a command that loads an order, adds an item, and saves it, 8 at a time"},
	}
}

// scales are the scale tests, with so many commands.
func scales(n int) []workload {
	return []workload{
		{name: "scale/commands", op: "command", fixed: n, scale: true, start: startDispatch(Four, 1), about: "send a million commands through the pipeline to a handler that does nothing"},
		{name: "scale/load", op: "event", items: scaleEvents, fixed: scaleLoads, scale: true, start: startLoad(scaleEvents, false), about: "make an order of all its 100,000 events"},
	}
}

// Entries returns the entries of the contenders: each in every case.
func Entries(factories ...Factory) []suite.Entry {
	var entries []suite.Entry
	for _, w := range workloads() {
		for _, f := range factories {
			entries = append(entries, entry(w, f))
		}
	}
	for i := range scales(0) {
		for _, f := range factories {
			n := f.ScaleCommands
			if n == 0 {
				n = scaleCommands
			}
			e := entry(scales(n)[i], f)
			if n != scaleCommands && e.Case == "scale/commands" {
				e.Note = suite.Notes(e.Note, fmt.Sprintf("%d commands instead of %d", n, scaleCommands))
			}
			entries = append(entries, e)
		}
	}
	return entries
}

// Run runs the contenders as Go benchmarks.
func Run(b *testing.B, factories ...Factory) { suite.Bench(b, Entries(factories...)) }

func entry(w workload, f Factory) suite.Entry {
	return suite.Entry{
		Suite: Name, Case: w.name, Contender: f.Name, Durability: f.Durability, Transport: f.Transport, Address: f.Address, About: w.about, Note: f.Note,
		Op: w.op, Items: w.items, Clients: w.clients, Fixed: w.fixed, Scale: w.scale,
		Skip: func(env *suite.Env) string {
			if reason := f.Lacks.Reason(w.name); reason != "" || f.Skip == nil {
				return reason
			}
			return f.Skip(env)
		},
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			d, err := f.Open(ctx, env, env.Dir)
			if err != nil {
				return nil, err
			}
			round := w.start(&fixture{domain: d})
			round.Close = d.Close
			return round, nil
		},
	}
}

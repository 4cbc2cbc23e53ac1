package kv

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Name is the name of the suite.
const Name = "kv"

// DefaultScaleKeys is how many keys the scale tests write.
const DefaultScaleKeys = 1_000_000

// workload is a case.
type workload struct {
	name, about string
	op          string
	items       int
	bytes       int64
	clients     int
	fixed       int
	curve       string                  // the curve of throughput against clients that the case is on
	scale       func(*suite.Entry, int) // for scale tests: sets what depends on the number of keys
	start       func(ctx context.Context, b *fixture) (*suite.Round, error)
}

// workloads are the cases, in the order in which they are shown.
func workloads() []workload {
	return []workload{
		{name: "set", about: "write a new key of a few bytes", op: "key", curve: "set", start: startSet(1)},
		{name: "set/8-clients", about: "write a new key, 8 clients at a time", op: "key", clients: 8, curve: "set", start: startSet(8)},
		{name: "set/32-clients", about: "write a new key, 32 clients at a time", op: "key", clients: 32, curve: "set", start: startSet(32)},
		{name: "set-get", about: "write a new key and read it", op: "key", start: startSetGet},
		{name: "get", about: "read the same key again and again", op: "key", start: startGet},
		{name: "get/spread", about: "read one of the keys of all tables, any of them", op: "key", start: startSpread},
		{name: "list", about: "list the keys of one of many tables with 1,000 keys", op: "key", items: tableKeys, start: startList},
		{name: "page", about: "list 100 of 1,000 keys, from the 100th on, in order", op: "key", items: pageKeys, start: startPage},
		{name: "set-large", about: "write a new key of 1 MiB", op: "key", bytes: largeBytes, fixed: largeRound, start: startLarge(true, false, false)},
		{name: "get-large", about: "read the same key of 1 MiB again and again", op: "key", bytes: largeBytes, start: startGetLarge},
		{name: "set-get-large", about: "write a new key of 1 MiB and read it", op: "key", bytes: 2 * largeBytes, fixed: largeRound, start: startLarge(true, true, false)},
		{name: "delete-large", about: "write a new key of 1 MiB and delete it", op: "key", bytes: largeBytes, fixed: largeRound, start: startLarge(true, false, true)},
		{name: "delete", about: "delete a key of a few bytes", op: "key", start: startDelete},
		{name: "compare-and-set", about: "replace a value, if it is the one that was written last", op: "key", start: startSwap},
		{name: "compare-and-set/8-clients", about: "add 1 to the same counter by read and compare-and-set, 8 clients at a time", op: "key", clients: 8, start: startCount(8)},
		{name: "get-many/100", about: "read 100 keys at once", op: "key", items: manyKeys, start: startGetMany},
		{name: "set-many/100", about: "write 100 new keys at once", op: "key", items: manyKeys, start: startSetMany},
		{name: "watch", about: "write a key and wait until a watcher has been told", op: "key", start: startWatch},
		{name: "scale/set", about: "write a million new keys, one after the other", op: "key", start: startSet(1),
			scale: func(e *suite.Entry, keys int) { e.Fixed = keys }},
		{name: "scale/set-many", about: "write a million new keys, 100 at a time", op: "key", items: manyKeys, start: startSetMany,
			scale: func(e *suite.Entry, keys int) { e.Fixed = max(keys/manyKeys, 1) }},
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
	return entries
}

// Run runs the contenders as Go benchmarks.
func Run(b *testing.B, factories ...Factory) { suite.Bench(b, Entries(factories...)) }

// RunScale runs the scale tests as Go benchmarks.
func RunScale(b *testing.B, factories ...Factory) { suite.BenchScale(b, Entries(factories...)) }

func entry(w workload, f Factory) suite.Entry {
	e := suite.Entry{
		Suite: Name, Case: w.name, Contender: f.Name, Durability: f.Durability, Transport: f.Transport, Address: f.Address, About: w.about, Note: f.Note,
		Op: w.op, Items: w.items, BytesPerOp: w.bytes, Clients: w.clients, Fixed: w.fixed,
		Skip:  func(env *suite.Env) string { return skip(w, f, env) },
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) { return start(ctx, w, f, env) },
	}
	if w.curve != "" {
		e.Curve = &suite.Curve{Name: w.curve, Axis: "clients", X: float64(max(w.clients, 1))}
	}
	if w.scale != nil {
		keys := f.ScaleKeys
		if keys == 0 {
			keys = DefaultScaleKeys
		}
		e.Scale = true
		w.scale(&e, keys)
		if keys != DefaultScaleKeys {
			e.Note = suite.Notes(e.Note, fmt.Sprintf("scale tests of %d keys instead of %d", keys, DefaultScaleKeys))
		}
	}
	return e
}

func skip(w workload, f Factory, env *suite.Env) string {
	if reason := f.Lacks.Reason(w.name); reason != "" {
		return reason
	}
	if f.Skip != nil {
		return f.Skip(env)
	}
	return ""
}

func start(ctx context.Context, w workload, f Factory, env *suite.Env) (*suite.Round, error) {
	store, err := f.Open(ctx, env, env.Dir)
	if err != nil {
		return nil, err
	}
	b := &fixture{store: store, tables: allTables, scale: w.scale != nil}
	if env.Quick {
		b.tables = quickTables
	}
	round, err := w.start(ctx, b)
	if err != nil {
		return nil, errors.Join(err, b.close()) // the row has the name
	}
	round.Close = b.close
	return round, nil
}

package event

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Name is the name of the suite.
const Name = "event"

// DefaultScaleEvents is how many events the scale tests append.
const DefaultScaleEvents = 1_000_000

// workload is a case.
type workload struct {
	name, about string
	op          string // "event" if empty
	items       int
	clients     int
	fixed       int
	primary     string
	curve       string
	restarts    bool // the store is opened again
	scale       bool
	start       func(ctx context.Context, b *fixture) (*suite.Round, error)
}

// workloads are the cases, in the order in which they are shown.
func workloads() []workload {
	return slices.Concat(appends(), reads(), leftOut())
}

// appends are the cases that write.
func appends() []workload {
	one := []Event{small}
	all := []workload{{name: "append/single", about: "append one event of 61 bytes to a new stream", curve: "append", start: startAppend(one, 1)}}
	for _, n := range []int{5, 10, 50, 100} {
		all = append(all, workload{name: fmt.Sprintf("append/batch-%d", n), items: n, start: startAppend(batch(n), 1),
			about: fmt.Sprintf("append %d events at once to a new stream", n)})
	}
	return append(all,
		workload{name: "append/metadata", about: "append one event with four IDs and three entries to a new stream", start: startAppend([]Event{described}, 1)},
		workload{name: "append/expected", about: "append one event to a stream that is expected to be at version 1", start: startExpected},
		workload{name: "append/same-stream", about: "append one event to the same stream, again and again", start: startSameStream(1)},
		workload{name: "append/8-workers", about: "append one event to a new stream, 8 workers at a time", clients: 8, curve: "append", start: startAppend(one, 8)},
		workload{name: "append/32-workers", about: "append one event to a new stream, 32 workers at a time", clients: 32, curve: "append", start: startAppend(one, 32)},
	)
}

// reads are the cases that read, or do both.
func reads() []workload {
	var all []workload
	for _, n := range []int{10, 100, 1000, 10_000} {
		all = append(all, workload{name: fmt.Sprintf("load/%d", n), items: n, start: startLoad(n, 1), about: fmt.Sprintf("load all of a stream of %d events", n)})
	}
	clients := runtime.GOMAXPROCS(0)
	return append(all,
		workload{name: "load/1000-from-501", about: "load the second half of a stream of 1,000 events", items: 500, start: startLoad(1000, 501)},
		workload{name: "mixed/read-80", about: "load one of 100 streams of 10 events (80%) or append an event to a new one (20%), a client for each core", op: "operation", clients: clients, start: startMixed(20, mixedStreams)},
		workload{name: "mixed/write-80", about: "load one of 100 streams of 10 events (20%) or append an event to a new one (80%), a client for each core", op: "operation", clients: clients, start: startMixed(80, mixedStreams)},
		workload{name: "mixed/load-while-writing", about: "load one of 100 streams (67%) or append an event to one of them (33%), a client for each core", op: "operation", clients: clients, start: startLoadWhileWriting},
		workload{name: "info/stream", about: "ask for the version and the number of events of a stream", op: "call", start: startInfo(false)},
		workload{name: "info/last-position", about: "ask for the last position", op: "call", start: startInfo(true)},
	)
}

// leftOut are the cases that event stores are not usually measured by.
func leftOut() []workload {
	return []workload{
		{name: "contention/exact", about: "read the version of one stream and append an event at it, until that succeeds; 8 writers", clients: 8, start: startContention(8, true)},
		{name: "contention/any", about: "append an event to one stream at any version; 8 writers", clients: 8, start: startContention(8, false)},
		{name: "feed/page", about: "read 1,000 events of all streams in order, from any position on", items: feedPage, start: startPages},
		{name: "feed/catch-up", about: "get an event by a subscription that begins far behind", fixed: feedEvents, start: startCatchUp},
		{name: "subscribe", about: "append an event and wait until a subscription has been told", start: startSubscribe},
		{name: "cold", about: "load a stream of 100 events, each once, after opening the store with nothing in the page cache", items: coldEvents, fixed: coldLoads, restarts: true, start: startCold},
		{name: "recovery", about: "open what a killed process left, ask for the last position and load a stream", op: "recovery", fixed: 1, restarts: true, start: startRecovery},
		{name: "disk", about: "append 100 events at once to a new stream, until there are 50,000; what the files take when the store is closed", items: diskPerBatch, fixed: diskBatches, primary: "disk", start: startDisk},
	}
}

// scales are the scale tests of a contender, with so many events.
func scales(events int) []workload {
	one, longest := []Event{small}, min(events, scaleLongest)
	batches := max(events/scaleBatch, 1)
	all := []workload{
		{name: "scale/sequential", about: "append a million events, one to each new stream", fixed: events, start: startAppend(one, 1)},
		{name: "scale/batch-100", about: "append a million events, 100 to each new stream", fixed: batches, items: scaleBatch, start: startAppend(batch(scaleBatch), 1)},
		{name: "scale/concurrent-8", about: "append a million events, one to each new stream, 8 workers", fixed: events, clients: scaleWorkers, start: startAppend(one, scaleWorkers)},
		{name: "scale/concurrent-cores", about: "append a million events, one to each new stream, a worker for each core", fixed: events, clients: runtime.GOMAXPROCS(0), start: startAppend(one, runtime.GOMAXPROCS(0))},
		{name: "scale/load", about: "load all of a stream of 100,000 events", fixed: scaleLoads, items: longest, start: startLongLoad(longest)},
		{name: "scale/many-streams", about: "append a million events to 1,000 streams, 100 at a time", fixed: batches, items: scaleBatch, start: startStreams(scaleStreams, scaleBatch)},
		{name: "scale/one-stream", about: "append a million events to one stream, 100 at a time", fixed: batches, items: scaleBatch, start: startSameStream(scaleBatch)},
		{name: "scale/mixed", about: "load one of 1,000 streams of 10 events (70%) or append an event to a new one (30%), half a million times", op: "operation", fixed: max(events/2, 1), clients: runtime.GOMAXPROCS(0), start: startMixed(30, scaleStreams)},
	}
	for i := range all {
		all[i].scale = true
		all[i].start = withMemory(all[i].start)
	}
	return all
}

// Entries returns the entries of the contenders: each in every case.
func Entries(factories ...Factory) []suite.Entry {
	var entries []suite.Entry
	for _, w := range workloads() {
		for _, f := range factories {
			entries = append(entries, entry(w, f))
		}
	}
	var cases [][]suite.Entry // of the scale tests: by case, then by contender
	for _, f := range factories {
		events := f.ScaleEvents
		if events == 0 {
			events = DefaultScaleEvents
		}
		for i, w := range scales(events) {
			if i == len(cases) {
				cases = append(cases, nil)
			}
			e := entry(w, f)
			if events != DefaultScaleEvents {
				e.Note = suite.Notes(e.Note, fmt.Sprintf("scale tests of %d events instead of %d", events, DefaultScaleEvents))
			}
			cases[i] = append(cases[i], e)
		}
	}
	return append(entries, slices.Concat(cases...)...)
}

// Run runs the contenders as Go benchmarks.
func Run(b *testing.B, factories ...Factory) { suite.Bench(b, Entries(factories...)) }

// RunScale runs the scale tests as Go benchmarks.
func RunScale(b *testing.B, factories ...Factory) { suite.BenchScale(b, Entries(factories...)) }

func entry(w workload, f Factory) suite.Entry {
	e := suite.Entry{
		Suite: Name, Case: w.name, Contender: f.Name, Durability: f.Durability, Transport: f.Transport, Address: f.Address, About: w.about, Note: f.Note,
		Op: w.op, Items: w.items, Clients: w.clients, Fixed: w.fixed, Primary: w.primary, Scale: w.scale,
		Skip:  func(env *suite.Env) string { return skip(w, f, env) },
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) { return start(ctx, w, f, env) },
	}
	if e.Op == "" {
		e.Op = "event"
	}
	if w.curve != "" {
		e.Curve = &suite.Curve{Name: w.curve, Axis: "clients", X: float64(max(w.clients, 1))}
	}
	return e
}

func skip(w workload, f Factory, env *suite.Env) string {
	if reason := f.Lacks.Reason(w.name); reason != "" {
		return reason
	}
	switch {
	case w.restarts && !f.Restarts:
		return "the contender has no files of its own to open again"
	case w.primary == "disk" && f.Durability == suite.Memory:
		return "the contender keeps nothing in files"
	case f.Skip != nil:
		return f.Skip(env)
	}
	return ""
}

func start(ctx context.Context, w workload, f Factory, env *suite.Env) (*suite.Round, error) {
	b := &fixture{f: f, env: env, dir: "store", quick: env.Quick, scale: w.scale}
	var err error
	if b.store, err = b.open(ctx, b.dir); err != nil {
		return nil, err
	}
	round, err := w.start(ctx, b)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name, err), b.close())
	}
	round.Close = b.close
	return round, nil
}

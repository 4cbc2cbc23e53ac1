package runnertest

import (
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/result"
)

// Results returns a fixed file of results with rows of every kind: for golden files
// and pictures.
func Results() *result.File {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := &result.File{
		Version: result.Version, Started: at, Finished: at.Add(90 * time.Second), Note: "The machine had other work.",
		Machine:  result.Machine{CPU: "Example CPU", Cores: 2, Memory: 8 << 30, OS: "linux", Arch: "amd64", Kernel: "6.1", Filesystem: "ext4"},
		Build:    result.Build{Go: "go1.26", Commit: "0123456789abcdef", Modules: map[string]string{"example.com/b": "v1.2.3", "example.com/a": "v0.1.0"}},
		Settings: result.Settings{Rounds: 6, Time: 50 * time.Millisecond},
	}
	for _, c := range []struct {
		name    string
		clients int
		factor  float64
	}{{"set", 1, 1}, {"set/8-clients", 8, 0.4}, {"set/32-clients", 32, 0.2}} {
		for _, row := range []result.Row{
			timed("mainstem-pebble-fsync", "fsync", 180_000*c.factor, 900),
			timed("bbolt", "fsync", 420_000*c.factor, 4000),
			timed("mainstem-pebble-os", "os", 4_000, 900),
			timed("pebble-os", "os", 3_950, 0),
			timed("mainstem-pebble-memory", "memory", 3_000, 800),
			timed("server", "memory", 60_000*c.factor, 300),
		} {
			row.Suite, row.Case, row.Clients, row.About = "kv", c.name, c.clients, "write a new key"
			if row.Transport = "in process"; row.Contender == "server" {
				row.Transport = "loopback TCP"
			}
			if row.Contender == "bbolt" {
				row.Note = "a B+ tree"
			}
			row.Curve = &result.Curve{Name: "set", Axis: "clients", X: float64(c.clients)}
			f.Rows = append(f.Rows, row)
		}
	}
	f.Rows = append(f.Rows,
		unmeasured("redis", result.Skipped, "no redis server: give one with --address redis=…"),
		unmeasured("cheat", result.Failed, "WRONG ANSWER: key 1 is not there"),
		resident("mainstem-pebble-os", 30<<20), resident("other", 90<<20), million())
	return f
}

// samples are rounds around a time, spread by a few percent, always the same ones.
func samples(ns, bytes float64) []result.Sample {
	var all []result.Sample
	for i, part := range []float64{1, 1.03, 0.98, 1.01, 0.99, 1.05} {
		all = append(all, result.Sample{Ops: 1000, Time: ns * part, Bytes: bytes, Allocs: bytes / 300, Order: i + 1})
	}
	return all
}

func timed(contender, durability string, ns, bytes float64) result.Row {
	r := result.Row{
		Contender: contender, Durability: durability, Op: "key", Items: 1, BytesPerOp: 100, Clients: 1,
		Status: result.OK, Samples: samples(ns, bytes),
		Latency: &result.Latency{Count: 6000, Mean: ns, Max: int64(ns * 40)},
	}
	for i, q := range result.Quantiles {
		if q <= 0.999 {
			r.Latency.Points = append(r.Latency.Points, result.Point{Quantile: q, Time: int64(ns * (0.8 + 0.002*float64(i*i*i)/(1.2-q)/10))})
		}
	}
	return r
}

func unmeasured(contender, status, reason string) result.Row {
	return result.Row{Suite: "kv", Case: "set", Contender: contender, Durability: "memory", Transport: "loopback TCP", Op: "key", Items: 1, Clients: 1, Status: status, Reason: reason}
}

func resident(contender string, bytes float64) result.Row {
	return result.Row{
		Suite: "footprint", Case: "idle", Contender: contender, Durability: "os", Transport: "loopback HTTP", About: "memory of an idle process", Op: "op", Items: 1, Clients: 1,
		Primary: "resident", Status: result.OK, Samples: samples(1e6, 100),
		Metrics: []result.Metric{{Name: "resident", Unit: "B", Values: []float64{bytes, bytes * 1.01, bytes * 0.99, bytes, bytes, bytes}}},
	}
}

// million is a scale test with marks.
func million() result.Row {
	r := timed("mainstem-pebble-os", "os", 5000, 900)
	r.Suite, r.Case, r.Transport, r.Scale = "kv", "scale/set", "in process", true
	r.Samples = r.Samples[:1]
	for i := range 11 {
		r.Marks = append(r.Marks, result.Mark{Done: i * 100_000, Elapsed: time.Duration(i*500+i*i*5) * time.Millisecond})
	}
	return r
}

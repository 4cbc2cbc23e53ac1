// Package suite is what a suite of workloads and its contenders agree on with
// their runner: the entries of a run, what an entry is given, what it
// hands back, and a recorder for latencies.
//
// # Nouns
//
// A [Suite] is a list of entries. An [Entry] is one contender in one case: what
// `bench run kv/set` shows as a row. Entries with the same Suite and Case compete,
// and so must do the same work. Starting an entry opens the contender, brings it
// into the state that the case begins with, and returns a [Round]: the operation
// itself, the check of its answers, and the clean-up. Each row states its [Durability]
// and its [Transport], so that a library is not taken for a faster server. An [Env] is
// the place where this happens. A [Server] is a peer that the bench can start itself,
// in a process of its own, so that its memory is not counted as the client's.
//
// A suite is a plain Go package that declares an adapter interface and a Factory
// (name, durability, transport, open and clean-up, a reason to skip) and makes entries of
// factories:
//
//	func Entries(factories ...Factory) []suite.Entry  { … }
//	func Run(b *testing.B, factories ...Factory)      { suite.Bench(b, Entries(factories...)) }
//	func RunScale(b *testing.B, factories ...Factory) { suite.BenchScale(b, Entries(factories...)) }
//
// so that a third party measures its own contender with a Go benchmark of three lines.
//
// # Guarantees
//
// For each entry, one goroutine makes these calls, in this order:
//
//	Skip, Start, then for every round: Prepare(n), Run(n), Check, Metrics; then Close
//
// Only Run is timed. The first rounds find n and are thrown away; their answers are
// checked all the same. An error of any call fails the row, loudly. An entry with
// Fresh, or with Scale and Fixed, has one round for each Start, in a process of its own.
//
// # Concurrency and ownership
//
// Whatever goroutines Run starts must have ended when it returns. A [Recorder]
// may be used from many goroutines; a [Worker] belongs to one.
//
// # Limits
//
// Latencies are kept to two significant digits, from 1 ns to one hour ([MaxLatency]).
//
// # Testing
//
// [Bench] runs entries as Go benchmarks, which `go test -bench` and benchstat know.
//
//snippet:type Factory struct{}
package suite

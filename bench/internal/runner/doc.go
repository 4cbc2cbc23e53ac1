// Package runner runs the entries of suites against each other and writes down what
// it saw.
//
// # Nouns
//
// [Run] takes [Options] and returns result files. Each entry of a case has a worker,
// for each variant. All workers of a case are started, warmed up until the number of
// operations of a round is known, and then take turns: one round each, in an order that
// is shuffled for every round, so that what disturbs the machine disturbs all of them.
// An [Executor] runs the entries of one contender: [Local] in this process, [Process]
// in another, which is this program again with [Serve].
//
// # Guarantees
//
// Only Round.Run is timed; the garbage collector runs before it. Allocations are
// those of the contender's process, between the same two moments. A worker whose call
// fails, whose answers are wrong, or that exceeds the time of an entry is a failed
// row with the reason, and no samples of it are kept. A worker that cannot run is a
// skipped row with the reason. When ctx ends, cases that are complete stay and the
// file says that it was interrupted.
//
// A time limit for the whole (--quick) is shared among the entries that are left,
// again and again, so that slow starts shorten what follows. Entries that no time is
// left for are skipped rows that say so.
//
// # Variants
//
// With two variants, each entry has two workers that take turns: how two builds of
// Mainstem are compared under the same disturbances.
//
// # What is not kept apart
//
// Workers that rest stay open: what a contender does in the background after its round
// (compaction) may fall into the round of another. Shuffling spreads it over all. Scale
// tests of a fixed size are an exception: every round of them starts a process, and only
// one contender is there at a time, so that memory and disk are those of one.
package runner

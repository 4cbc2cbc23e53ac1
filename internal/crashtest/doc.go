// Package crashtest finds out what crashes, broken disks and damaged files leave
// of a log.
//
// A [Workload] is a seeded list of steps with everything that a log can do, and
// what an undisturbed log held after each of them. A [CutFS] stops time in front of
// every file operation, so that a test can look at what a power cut would leave
// there; a [Fault] makes one file operation fail, or all from one on; an [Image]
// is a directory whose files can be harmed one by one ([Damage]). A [TornFS] is a file
// system whose power cuts tear what was not synced by sectors. A ledger (see
// [LedgerBatch]) is what several writers commit at once, in this process or in
// another one that is killed.
//
// # Guarantees
//
// [Workload.Verify] accepts a log only if its own check finds nothing and all that
// it shows its readers, byte for byte, is what the undisturbed log showed after one
// of the steps allowed: so every acknowledged batch is there whole, every other
// one whole or absent, and nothing is missing in the middle. [Workload.Resume]
// then goes on with the steps that follow and expects the answers of the undisturbed
// log; a batch with an ID that was in doubt is committed again and must end up
// there once.
//
// The undisturbed log is the engine itself in memory: this package tells what
// crashes change, package enginetest what is right.
//
// # Concurrency and ownership
//
// A Workload is not changed by being run. [CutFS], [TornFS], [Fault] and [Clock] may be used
// from many goroutines.
//
// # Limits
//
// The clock of a workload stands still within a step, so that expiry does not
// depend on the speed of the machine. The order in which an engine works in the
// background is not repeated by a seed; power cuts cover whatever order there was.
//
// A workload whose files are to be harmed one by one should be Small. Pebble looks
// for the one bit that would make the checksum of a damaged block right again: it
// tries each of the first 40 KiB and reads the whole block for every try. That takes
// 2 seconds for a block with a value of 80 KiB, and 20 for one with a megabyte.
//
// # Testing
//
// The tests print seeds. By default the loops try one place of eight, from a random one
// on, in a quarter of a minute. Step crash of .ci/run tries all of them, and with
// -crash.long there are many more seeds, every byte of every file and hundreds of kills,
// for an hour or more:
//
//	go test ./internal/crashtest -crash.every=1
//	go test ./internal/crashtest -crash.long -timeout 3h
package crashtest

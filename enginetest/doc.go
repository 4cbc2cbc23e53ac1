// Package enginetest is the conformance suite of package mainstem: it decides
// whether an implementation of [mainstem.Log] keeps the laws and every promise
// of the contract. It is public, for everyone who writes an engine.
//
// # How an engine uses it
//
// The whole conformance test of an engine is a constructor, its declared
// features and one call:
//
//	func TestConformance(t *testing.T) {
//		clock := enginetest.NewClock()
//		f := enginetest.All()                            // offers everything ...
//		f.Rewrite, f.Remove = false, false               // ... but these
//		f.Clock = clock                                  // time passes at once
//		f.Limits = mainstem.Limits{MaxValue: 256 << 10}  // small limits test faster
//		open, reopen := enginetest.InDirectory(func(t *testing.T, dir string) mainstem.Log {
//			log, err := myengine.Open(dir, &myengine.Options{Now: clock.Now, Monotonic: clock.Monotonic, Limits: f.Limits})
//			if err != nil {
//				t.Fatal(err)
//			}
//			return log
//		})
//		f.Reopen = reopen                                // it is durable: law 3 is tested
//		enginetest.Run(t, f, open)
//	}
//
// open is called once for each case and returns a new, empty log; the suite
// closes it. [Features] both selects cases and changes what is demanded: what an
// engine does not offer it must refuse with Unsupported, and what it offers it
// must declare. An engine that leaves something out says so in its package
// comment. Cases that do not apply are named in the test's log with the reason.
//
// A log that has a method Sweep(context.Context) error is told by it to do its
// background work (expiry, retention) at once; otherwise the suite waits up to
// Features.Patience for it.
//
// # What it does
//
// Cases are grouped by law: contract, law1-atomic to law8-live. Each checks one
// promise, and a failure ends with the law and the promise that are broken:
//
//	law2-ordered/polling sees no holes breaks law 2 (ordered, without holes):
//	A reader that goes on after the last position it saw misses nothing, ...
//
// Run one law with go test -run TestConformance/law2, one case with
// -run 'TestConformance/law2-ordered/polling'.
//
// Beyond single cases:
//
//   - [RunPrograms], which Run calls, runs random programs on the engine and on
//     the model of package enginetest/model, compares every answer, and reduces a
//     program that fails to a few lines with the seed that repeats it;
//   - concurrent clients record what they did and saw, and package
//     enginetest/history decides whether one lawful log could have answered so;
//   - after every case the log must pass its own check, if it is a
//     [mainstem.Checker], and close within Features.Patience.
//
// # What it cannot do
//
// It sees an engine only through the contract. That an acknowledged batch
// survives a power cut, a killed process, a full or failing disk must be tested
// below the engine. That followers cost nothing for the traffic of others (law 8)
// is for benchmarks; the suite checks that they wake, and for what.
//
// Where the contract leaves a choice the suite accepts all of them: positions
// may have gaps; after a key was forgotten, it and keys new to its space may go
// on with any higher version; a smaller history may take hold with the next
// write to a key; the Expired tombstones of one sweep have no order among them;
// a batch with several faults may fail for any of them.
//
// # Concurrency and ownership
//
// Cases run one after the other, each on a log of its own, so several suites may
// run in parallel if their Features and clocks are different values. The suite's
// goroutines end with their case.
//
// # Limits
//
// With the default limits of package mainstem a run needs a few hundred MB for
// the cases on limits; set Features.Limits and the engine's to less.
//
// # Testing
//
// The suite passes on the model. Its own tests break the model in some thirty
// ways (a record left out of a feed, a batch torn, a condition ignored, a
// follower never woken ...) and require that a case of the right law fails.
//
//snippet:import myengine "github.com/mainstemdev/mainstem/engine/pebblelog"
package enginetest

// Package crashtest finds out what crashes leave behind: it cuts the power at every
// file operation, fails every file operation, and kills processes, and then looks
// at the log that is opened again.
//
// A [Workload] is a seeded program of batches with everything that a log can do,
// generated against the model of package enginetest together with the state after
// each step. A crash may leave any state from the last acknowledged step on, whole,
// never less and never a mixture. The tests open the log on Pebble's crashable
// file system, crash it, open it again, let it check itself and compare.
//
//	go test ./internal/crashtest
//
// Failures print the seed. All functions may be called from many goroutines; a
// Workload is not changed by running it.
package crashtest

// Package model is the contract of package mainstem written down as the
// simplest program that obeys it: one mutex, maps and slices in memory.
//
// It is the oracle of package enginetest, which runs random programs on an
// engine and on a [Log] of this package and compares every answer. It is also a
// fast stand-in for code that only needs some mainstem.Log in its tests.
//
//	log := model.New(nil)
//	defer log.Close()
//
// # Guarantees
//
// All laws but durability: nothing outlives the process. Where the contract
// leaves a choice, the model takes the plainest one:
//
//   - a key is live if the record that ends at its newest version is held, is a
//     value and has not expired. Removing that record (truncate, remove, expiry)
//     never brings an older value back;
//   - the version after a forgotten or expired record is the next number;
//   - a policy takes hold at once: superseded records are gone when Commit or
//     AlterSpace returns;
//   - records that expired are hidden at once and removed by [Log.Sweep], which is
//     the only background work and runs only when it is called.
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines. Every record handed out is a
// copy that belongs to the caller; every slice of a batch is copied by Commit.
//
// # Limits
//
// Records superseded by newer ones are freed, but the order of the log and the
// newest version of every key ever written are kept for the life of the Log, and
// so are all batch IDs: meant for tests, not for data.
//
// # Testing
//
// The package passes enginetest itself, and [Log.Check] verifies the invariants
// its fields state.
package model

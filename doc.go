// Package mainstem is the contract of one ordered, atomic, durable log, and the
// place where its laws are written down. Engines implement [Log]; views such as
// kv, event and topic give it a meaning; a program links one engine and the
// views it wants.
//
// # Words
//
// A [Log] holds spaces. A space is a named collection of keys under one
// [Policy]. A key is bytes: an entity inside its space. A [Record] is one write
// to a key; it has a [Version] among the records of its key and a [Position]
// among all records of the log. A [Batch] is any number of writes and conditions
// on any keys of any spaces, committed together.
//
//	b := mainstem.NewBatch()
//	b.Ensure("accounts", mainstem.Policy{History: 1})
//	b.IfVersion("accounts", []byte("alice"), 7)
//	b.Put("accounts", []byte("alice"), []byte("90"))
//	b.Put("accounts", []byte("bob"), []byte("110"))
//	receipt, err := log.Commit(ctx, b)
//
// # Writes of the views
//
// One rule holds for kv, event, topic and alert: Put(ctx, …) does it now, PutTo(b, …)
// writes it into a batch, which Commit makes true together with all else in it. Every
// write has both forms, of which the second has the name of the first with To.
//
//	orders.AppendTo(b, "order-42", event.AtVersion(3), evs)
//	users.PutTo(b, "42", user)
//	_, err = log.Commit(ctx, b) // both or none
//	err = users.Delete(ctx, "43") // at once
//
// PutTo(b, …) never reads, and returns no error: a mistake goes to [Batch.Fail], so that
// Commit returns it and writes nothing. A write that must read first is
// PutTo(ctx, b, …) error. It adds conditions on what it read to the batch; its error is
// returned, and by Commit, too.
//
// # The laws
//
// Every engine obeys them; package enginetest checks each by its name.
//
//  1. Atomic. A batch is visible wholly or not at all, to every reader, after
//     any crash.
//  2. Ordered, without holes. Positions follow commit order. Once a reader has
//     seen position p, nothing below p ever appears.
//  3. Durable as asked. When Commit returns, the batch has reached the
//     [Durability] that was asked for: [Fsync] (the default; one fsync serves every
//     commit that waits for it), [Interval], or [OS].
//  4. Conditional. Conditions hold at the batch's place in the order, or the
//     batch fails with Conflict (want, got) and nothing is written.
//  5. Honest outcome. An error says whether the batch is certainly not written
//     or its outcome is unknown.
//  6. Idempotent on request. A batch with an ID that was committed before
//     returns the first receipt and writes nothing.
//  7. Exact. The bytes read are the bytes written; nil and empty stay distinct.
//  8. Live. A follower wakes when something it asked for is committed, without
//     polling; following one space costs nothing for the traffic of others.
//
// # Files
//
//	log.go      Log and the interfaces that make it up, ranges, filters
//	batch.go    batches: writes, conditions, how engines read them
//	record.go   records, versions, positions, headers
//	space.go    policies of spaces, and the rules for names and keys
//	errors.go   the kinds of errors, outcomes, sentinels
//	ended.go    errors for contexts that have ended
//
// # Concurrency and ownership
//
// All methods of a Log may be called from many goroutines. A Batch belongs to
// one goroutine. Commit borrows the batch's slices until it returns. Get returns
// bytes that belong to the caller; the sequences of GetMany, Scan, Read and Feed
// lend theirs until the loop body returns (see [Record]).
//
// # Errors
//
// Every error of the contract is an [*Error] with one of a closed list of kinds.
// Test it with errors.Is and a sentinel such as [ErrConflict]; find the details
// with errors.As.
//
// # Limits
//
// Names, keys and headers have fixed limits ([MaxKey] and its neighbours); values
// and batches have limits that an engine's options can move ([Limits]).
//
// # Testing
//
// Package enginetest is the conformance suite: an engine's whole test is a
// constructor, its declared features, and one call.
//
//snippet:type User struct{ Name string }
//snippet:var orders *event.Store
//snippet:var users *kv.Bucket[User]
//snippet:var user User
//snippet:var evs []event.Event
package mainstem

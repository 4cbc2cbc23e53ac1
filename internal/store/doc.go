// Package store makes what was written to a log lately readable from memory, and hands it
// on to sorted files in large pieces.
//
// A log is kept in two tiers. The hot tier, [Hot], holds the newest groups of batches in
// memory, ready for readers. The cold tier is a storage engine for sorted files, which the
// caller has. A group is a set of changes of keys, in the form of [format.Effects]: what the
// frame of a journal holds, too. Draining is writing groups from the hot tier to the cold
// one. A group is pending until it is there; the journal is the only durable copy meanwhile.
//
//	hot := store.NewHot(32 << 20)
//	err := hot.Apply(effects) // readable from now on
//	...
//	err = hot.Drain(4<<20, func(changes []store.Change) error { return writeBatch(changes) })
//
// # Guarantees
//
// A reader asks the hot tier first and the cold tier then, in this order. It sees all groups
// whose Apply had returned before:
//
//   - [Hot.Get] has the newest value of a slot, or it is that of the cold tier.
//   - [Hot.GetMany] has the newest values of several keys, as they were at one moment.
//   - [Hot.Records] has the newest records of a key without gaps; the cold tier has all
//     before the first of them, and maybe some of them again.
//   - [Hot.Blocks] has all feed entries above a position, or says that it has not.
//   - If [Hot.Pending] is false for a space, the cold tier has everything of it, so ranges of
//     keys can be read there.
//
// What the cold tier holds is always the outcome of a beginning of the groups, whole ones,
// if it takes each piece of [Hot.Drain] as a whole. So if the groups number themselves, by a
// key that each of them sets, the cold tier says after a crash which of them it lacks, and
// applying these in order, to the cold tier alone, gives the state before the crash.
//
// # How it works
//
// Apply copies the group into the arena of a table and adds its changes to an index: a hash
// table from keys to places in the arena. Neither keys nor records are objects of their own
// for the garbage collector. There are two tables, the young and the old. When the young one
// has half of the memory and nothing of the old one is pending, it becomes the old one,
// which is dropped. So what is drained already is still read from memory for a while.
//
// A piece is smaller than its groups. Keys that several groups write, such as the totals of
// a space, are there once, and the feed entries of slots that were superseded while
// they were pending are left out. Its changes are sorted, which storage engines insert fast.
// It leaves the cold tier as its groups, one by one, would: see piece.go.
//
// Groups that change or remove what was written, by ranges or record by record, are not for
// the hot tier: the caller drains it, gives them to the cold tier, and [Hot.Invalidate]
// forgets what they touched.
//
// Invariants, which the tests check with random programs of appends, edits, drains that
// fail, and crashes:
//
//   - Of each key of a kind that is read here (slots, receipts, records, feed blocks of
//     spaces that keep all history), the hot tier has nothing, or its newest value.
//   - Of each such key that a pending group changes, it has something.
//   - Groups are drained in the order in which they were applied, each once.
//   - No group is dropped while it is pending, however much memory that takes: the caller
//     stops writing if the cold tier does not keep up (see [Hot.PendingBytes]).
//   - Bytes in an arena do not change and do not move.
//
// # Concurrency and ownership
//
// One goroutine calls Apply, Invalidate and Reset; all other methods may be called from many
// goroutines beside it. Apply copies what it is given. What readers are given belongs to the
// arena: it must not be changed, stays as it is, and keeps the memory of its table in use.
//
// # Limits
//
// A group has at most [MaxGroup] bytes; larger ones are for the cold tier. A tier takes
// about the memory that [NewHot] is given, plus what readers still hold, and what is pending
// beyond it. A table of 16 MiB has some 60,000 small events.
//
// Ranges of keys, and feeds of spaces with bounded history, are read from the cold tier
// only, after a drain.
//
// # Files
//
//	hot.go    the tier: what the leader of a log and readers call
//	table.go  groups and where things are in them
//	index.go  the hash table
//	arena.go  memory
//	piece.go  draining
//	filter.go keys that were certainly never added
//
// # Testing
//
//	go test ./internal/store                       # random programs beside a log of one tier
//	go test ./internal/store -fuzz FuzzApply
//	go test ./internal/store -run NONE -bench .    # beside a Go map
//
//snippet:var effects []byte
//snippet:func writeBatch([]store.Change) error { return nil }
package store

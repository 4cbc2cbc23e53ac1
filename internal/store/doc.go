// Package store keeps the newest writes of a log in memory, where they can be read, and writes them
// to a storage engine in large sorted pieces.
//
// # Words
//
// A log is stored in two tiers. The hot tier, [Hot], has the newest groups of batches in memory.
// The cold tier is a storage engine of sorted files, which belongs to the caller. A group is a set
// of changes of keys, in the form of [format.Effects], which is also the content of a journal's
// frame. To drain is to write groups from the hot tier to the cold one. A group is pending until it
// is drained; until then the journal has its only durable copy.
//
//	hot := store.NewHot(32 << 20)
//	err := hot.Apply(effects) // readable from now on
//	...
//	err = hot.Drain(4<<20, func(changes []store.Change) error { return writeBatch(changes) })
//
// # Guarantees
//
// A reader asks the hot tier first and then the cold one, in this order. It sees all groups whose
// Apply had returned before:
//
//   - [Hot.Get] returns the newest value of a slot, or reports that the cold tier has it.
//   - [Hot.GetMany] does so for several keys, as of one moment.
//   - [Hot.Records] returns the newest records of a key without gaps. The cold tier has all
//     records before the first of them, and may have some of them, too.
//   - [Hot.Blocks] returns all feed entries above a position, or reports that it may not have all.
//   - If [Hot.Pending] is false for a space, the cold tier has all of the space, so ranges of keys
//     can be read there.
//
// Order and atomicity: [Hot.Drain] writes the groups in their order, in pieces of whole groups. If
// the cold tier applies each piece completely or not at all, its state is always that after some
// first groups. If each group also sets a key to its number, the cold tier shows after a crash
// which groups it lacks. Applying these to it in order gives the state before the crash.
//
// Durability: the hot tier has none. It is lost when the process ends.
//
// # How it works
//
// Apply copies the group into the arena of a table and adds its changes to an index: a hash table
// from keys to places in the arena. Keys and records are no objects of the garbage collector. There
// are two tables, the young and the old one. When the young one has reached half of the memory and
// the old one has no pending group, the old one is dropped, the young one becomes the old one, and
// a new one begins. So groups stay readable in memory for a while after they were drained.
//
// A piece is smaller than its groups. A key that several groups write, such as the totals of a
// space, is in it once. The feed entry of a slot that was superseded while it was pending is left
// out. Its changes are sorted, because storage engines insert sorted keys fast. It gives the cold
// tier the same state as its groups one by one: see piece.go.
//
// Groups that change or remove earlier records, by ranges or one by one, are not applied to the hot
// tier. The caller drains the tier, writes them to the cold tier, and calls [Hot.Invalidate], which
// drops the keys that they change.
//
// Invariants, which the tests check with random programs of appends, edits, failing drains and
// crashes:
//
//   - Of each key of a kind that is read here (slots, receipts, records, feed blocks of spaces
//     that keep all history), the hot tier has nothing, or the newest value.
//   - Of each such key that a pending group changes, it has something.
//   - Groups are drained in the order in which they were applied, each one once.
//   - No group is dropped while it is pending, whatever memory that takes: the caller must stop
//     writing if the cold tier is too slow (see [Hot.PendingBytes]).
//   - Bytes in an arena do not change and do not move.
//
// # Concurrency and ownership
//
// Apply, Invalidate and Reset may be called from one goroutine only; all other methods may be
// called from many goroutines at the same time. Apply copies the bytes that it is given. The bytes
// that readers get belong to the arena: they do not change, must not be changed, and keep the
// memory of their table in use.
//
// # Limits
//
// A group has at most [MaxGroup] bytes; the caller writes larger ones to the cold tier. A tier
// takes about the memory that [NewHot] is given, plus the tables that readers still use, plus the
// pending groups that exceed it.
//
// Ranges of keys, and feeds of spaces with bounded history, can be read from the cold tier only,
// after a drain.
//
// # Files
//
//	hot.go    the tier: the methods for the leader of a log and for readers
//	table.go  the groups of a table, and the places of their keys
//	index.go  the hash table
//	arena.go  memory
//	piece.go  draining
//	filter.go a filter of keys that were never added
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

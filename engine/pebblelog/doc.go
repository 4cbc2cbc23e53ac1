// Package pebblelog is the embedded engine: a log in a directory, or in memory,
// on the Pebble storage engine.
//
//	log, err := pebblelog.Open("data", nil)
//	if err != nil { ... }
//	defer log.Close()
//	users, err := kv.Open[User](log, "app/users", nil)
//
// # Guarantees
//
// It obeys all eight laws of package mainstem. One frame of its journal carries every
// batch that waits at that moment (group commit). A reader never
// sees a batch that is not yet as durable as was asked for. Batch IDs are remembered
// for [Options.BatchIDAge].
//
// The next Open recovers the log after a killed process or a power cut. A write that
// fails (a full or broken disk) leaves the log readable and refusing commits with
// Unavailable until it is opened again; the batches that were being written report an
// unknown outcome. [Options.MinFree] stops commits before the disk is full. The disk space
// of what is removed comes back while the log is open, in the background.
//
// # Words
//
//	waiter       a batch or an internal job on its way through the queue of commits
//	leader       the goroutine that commits for all that wait; at most one
//	group        what a leader takes from the queue at once
//	run          the part of a group that shares one Pebble batch
//	tx           the changes of a run, under construction; plain if it only appends, indexed if
//	             it reads its own writes
//	frame        a run in the journal. Its effects are its Pebble batch
//	hot tier     runs in memory, ready for readers (package internal/store)
//	cold tier    Pebble
//	drain        hand runs of the hot tier to Pebble
//	show         make a run readable
//	publish      make the position, the totals and the spaces of a run those of the log
//	commit gate  closed from show until publish: readers of such a run wait
//	slot         the key of the newest record of a user's key, in spaces with bounded history
//	older key    the key of a record that a newer one has moved out of the slot
//	version key  the key of a record in spaces that keep all history, one for each record
//	marker       a version marker: no record, but the version of one that was the newest
//	             and was removed
//	floor        a version that is at least that of each key of the space that left no trace
//	key state    version and newest record of a user's key, as the leader needs them
//	feed block   entries of the feed of a space, in the order of positions, under one key
//	external     of a feed entry: its value is stored with the record only
//	moment       the time by which one read or one run judges what has expired
//	mark         a key that says that the clock was set back, and where in the order
//	edits        the runs that go to Pebble past the hot tier, and their count
//	epoch        a time without edits, in which the hot tier forgets nothing
//
// # Invariants
//
// Each has its reasons in the file named.
//
//   - At most one goroutine leads; while nobody does, the queue is empty (commit.go).
//   - Versions and positions are given in the order of the queue. A position is given again only
//     if the run that had it is in no frame (tx.go).
//   - No version of a key is given twice, whatever was removed (put.go, edit.go).
//   - A frame has all changes that follow from its batches: records, feed, totals, indexes,
//     receipts. So a crash leaves all of them or none (put.go).
//   - A run is shown after its frame is as durable as was asked, and after the run before it
//     (journal.go).
//   - Pebble holds the outcome of the first n frames, whole ones, and the number n (journal.go).
//   - Sorted files hold no frame that the journal may lose; the journal keeps all frames that
//     the sorted files lack (journal.go, guard.go).
//   - A run is in the hot tier, in Pebble, or both, from the moment it is shown (hot.go).
//   - Of each key that is read there the hot tier has the newest value, or nothing (hot.go).
//   - Head is at or above each position that a caller has been given by a read, and at each
//     position the totals are those of the records up to it (commit_gate.go).
//   - Feed blocks of a space do not overlap, and each record of a space with a feed has one
//     entry (put.go, edit.go). [Log.Check] verifies it.
//   - What other goroutines than the leader read of the leader's fields is atomic, or under a
//     lock that the field names (log.go).
//
// # How it works
//
// Batches wait in a queue. The goroutine that leads it takes all of them as one group, tests
// their conditions, gives their records versions and positions, and adds keys to one Pebble
// batch (commit.go, tx.go, put.go, edit.go). That batch is written to the journal as one
// frame, and synced if anybody asked for it; then it becomes readable, and positions are
// published, followers woken, receipts returned (journal.go, which has the invariants).
//
// A group that only appends becomes readable in memory, in the hot tier of package
// internal/store; many of them go to Pebble together, in the background (hot.go). Others go
// to Pebble at once. When Pebble has written a table in memory to a sorted file, the frames
// it was made of are freed; what is left of them after a crash is replayed by the next Open
// (replay.go).
//
// Gets, reads of streams, and feeds of one space that keeps all history look into the hot
// tier first (read.go, read_stream.go, feed.go). Other reads go to Pebble (scan.go). The sweeper
// removes what has expired or exceeds limits (sweep.go), the reclaimer gives its disk space
// back (reclaim.go). The layer below Pebble stops the log after a failed write (guard.go).
// Package internal/format has every key and value; docs/format.md draws them.
//
// # Files
//
//	log.go            Log, Open and Close; options.go, space.go (spaces and their registry)
//	commit.go         the queue, runs, publishing
//	tx.go             one run under construction; put.go (records), edit.go (history, removals)
//	keystate.go       the leader's cache of key states
//	absent.go         keys that reads did not find, so that conditions need not look
//	receipt.go        batch IDs: which are new, and the receipts of the others
//	commit_gate.go    how readers wait for a run that is being shown
//	journal.go        frames, durability, freeing the journal; replay.go (after a crash)
//	hot.go            the hot tier and draining; worker.go (goroutines in the background)
//	read.go           what all reads share, gets, followers; walk.go, read_stream.go (one key),
//	                  getmany.go, scan.go, feed.go, ends.go, snapshot.go
//	clock.go          the time, marks of clocks set back; clock_move.go (indexes after that)
//	sweep.go          expiry, limits, old batch IDs; sweep_expired.go (the expiry index)
//	reclaim.go        disk space of what was removed; reclaim_range.go (which files),
//	                  compact.go (all of it, on request)
//	failure.go        how the log fails, room on the disk; errors.go (kinds of errors)
//	guard.go          the file system below Pebble
//	dir.go            the directory: identity, lock, creation; private.go (modes of files)
//	readonly.go       a file system on which nothing is written
//	check.go          reads everything and compares; metrics.go (Stats)
//	backup.go         backup and restore; sums.go (checksums of its files)
//	comparer.go       the order of keys for Pebble
//	upgrade.go        logs of older formats; tail.go, salvage.go (their write-ahead logs)
//
// Begin with commit.go, which has the steps of a commit, and read.go, which says why a
// reader beside a commit sees what it should.
//
// # Concurrency and ownership
//
// A Log may be used from many goroutines. One process opens a directory at a time;
// a second one gets an error that names the first. Scan, Read and Feed lend the
// bytes of their records until the loop body returns; Get gives them away. A loop
// body may call any method of the log except Close, which waits for the loop.
//
// # Limits
//
// See [Options] and [mainstem.Limits]. Memory does not grow with the number of
// keys: it is bounded by CacheBytes, three times MemTableBytes and KeyStateCache, plus
// about 1 KiB for each space and each follower. Logs that were written before there was
// a journal are opened with [Options.Upgrade] only.
//
// # Testing
//
// [OpenMemory] is the same engine on Pebble's in-memory file system. [Options.FS]
// takes a file system that injects faults.
//
//snippet:type User struct{ Name string }
package pebblelog

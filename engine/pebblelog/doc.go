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
// It keeps all eight laws of package mainstem. All batches that wait at one moment are written
// to the journal together (group commit). Readers never see a batch before it is as durable as
// was asked for. Batch IDs are remembered for [Options.BatchIDAge].
//
// After a killed process or a power cut, the next Open recovers the log. After a failed write
// (a full or broken disk) the log stays readable, and refuses commits with Unavailable until it
// is opened again; the batches that were being written report an unknown outcome.
// [Options.MinFree] stops commits before the disk is full. The disk space of removed records is
// freed in the background, while the log is open.
//
// # Words
//
//	waiter       a batch or an internal job on its way through the queue of commits
//	leader       the goroutine that commits for all that wait; at most one
//	group        the waiters that a leader commits at once
//	run          the part of a group that shares one Pebble batch
//	tx           the changes of a run, under construction; plain if it only appends, indexed if
//	             it reads its own writes
//	frame        a run in the journal. Its effects are its Pebble batch
//	hot tier     the newest runs, in memory, for readers (package internal/store)
//	cold tier    Pebble
//	drain        write runs of the hot tier to Pebble
//	show         make a run readable
//	publish      update the position, the totals and the spaces of the log with those of a run
//	commit gate  closed from show until publish: readers of such a run wait
//	slot         the key of the newest record of a user's key, in spaces with bounded history
//	older key    the key of a record that a newer one has moved out of the slot
//	version key  the key of a record in spaces that keep all history, one for each record
//	marker       a version marker: it keeps the version of a key whose newest record was removed
//	trace        a record or a marker of a key
//	floor        a version that is at least that of each key of the space that left no trace
//	key state    version and newest record of a user's key, for the leader
//	feed block   entries of the feed of a space, in the order of positions, under one key
//	external     of a feed entry: its value is stored with the record only
//	moment       the time by which one read or one run judges what has expired
//	mark         a key that says that the clock was set back, and at which position
//	edits        the number of runs that bypass the hot tier, twice
//	epoch        a time in which no run bypasses the hot tier and the tier drops nothing
//
// # Invariants
//
// The file named explains each of them.
//
//   - There is at most one leader; while there is none, the queue is empty (commit.go).
//   - Versions and positions are given in the order of the queue. A position is given again only
//     if the run that had it is in no frame (tx.go).
//   - No version of a key is given twice, even after removals (put.go, edit.go).
//   - A frame has all changes that follow from its batches: records, feed, totals, indexes,
//     receipts. So a crash leaves all of them or none (put.go).
//   - A run is shown after its frame is as durable as was asked for, and after the run before it
//     (journal.go).
//   - Pebble holds the outcome of the first n frames, all of them complete, and the number n
//     (journal.go).
//   - Sorted files hold no frame that the journal may lose, and the journal keeps all frames that
//     are not in sorted files (journal.go, guard.go).
//   - From the moment a run is shown, it is in the hot tier, in Pebble, or in both (hot.go).
//   - For each key that is read there, the hot tier has the newest value or nothing (hot.go).
//   - Head is at or above each position that a read has returned. At each position the totals are
//     those of the records up to it (commit_gate.go).
//   - Feed blocks of a space do not overlap, and each record of a space with a feed has one
//     entry (put.go, edit.go). [Log.Check] verifies it.
//   - A field of the leader that other goroutines read is atomic, or under a lock that the field
//     names (log.go).
//
// # How it works
//
// Batches wait in a queue. Its leader takes them as one group, tests their conditions, gives
// their records versions and positions, and adds keys to one Pebble batch (commit.go, tx.go,
// put.go, edit.go). It writes that batch to the journal as one frame, and syncs the journal if
// any of the batches asks for it. Then the batch becomes readable, positions are published,
// followers woken, and receipts returned (journal.go has the invariants of this order).
//
// A group that only appends becomes readable in memory, in the hot tier of package
// internal/store; many such groups go to Pebble together, in the background (hot.go). Other
// groups go to Pebble at once. When Pebble has flushed a memtable to a sorted file, the frames
// in it are freed. After a crash, the next Open replays the frames that are left (replay.go).
//
// Gets, reads of streams, and feeds of one space that keeps all history look into the hot tier
// first (read.go, read_stream.go, feed.go). Other reads go to Pebble (scan.go). The sweeper
// removes records that have expired or exceed limits (sweep.go), and the reclaimer frees their
// disk space (reclaim.go). The layer below Pebble stops the log after a failed write (guard.go).
// Package internal/format has every key and value; docs/format.md draws them.
//
// # Files
//
//	log.go            Log, Open and Close; options.go, space.go (spaces and their registry)
//	commit.go         the queue, runs, publishing
//	tx.go             one run under construction; put.go (records), edit.go (history, removals)
//	keystate.go       the leader's cache of key states
//	absent.go         keys that reads did not find, for later conditions
//	receipt.go        batch IDs: which are new, and the receipts of the others
//	commit_gate.go    how readers wait for a run that is being shown
//	journal.go        frames, durability, freeing the journal; replay.go (after a crash)
//	hot.go            the hot tier and draining; worker.go (goroutines in the background)
//	read.go           what all reads share, gets, followers; walk.go, read_stream.go (one key),
//	                  getmany.go, scan.go, feed.go, ends.go, snapshot.go
//	clock.go          the time, marks of clocks set back; clock_move.go (indexes after that)
//	sweep.go          expiry, limits, old batch IDs; sweep_expired.go (the expiry index),
//	                  sweep_age.go (ages in spaces without a feed)
//	reclaim.go        freeing disk space after removals; reclaim_range.go (which files),
//	                  compact.go (all of it, on request); interrupt.go (how waits for Pebble end)
//	failure.go        how the log fails, free disk space; errors.go (kinds of errors)
//	guard.go          the file system below Pebble
//	dir.go            the directory: identity, lock, creation; private.go (modes of files)
//	readonly.go       a file system that writes nothing
//	check.go          reads everything and compares; metrics.go (Stats)
//	backup.go         backup and restore; sums.go (checksums of its files)
//	comparer.go       the order of keys for Pebble
//	upgrade.go        logs of older formats; tail.go, salvage.go (their write-ahead logs)
//
// Begin with commit.go, which has the steps of a commit, and read.go, which says why reads that
// run during a commit are correct.
//
// # Concurrency and ownership
//
// A Log may be used from many goroutines. One process opens a directory at a time; another one
// gets an error that names the first. The bytes of records from Scan, Read, Feed and GetMany are
// valid until the loop body returns; those from Get belong to the caller. A loop body may call
// any method of the log except Close, which waits for the loop.
//
// # Limits
//
// See [Options] and [mainstem.Limits]. Memory does not grow with the number of
// keys: it is bounded by CacheBytes, three times MemTableBytes and KeyStateCache, plus
// about 1 KiB for each space and each follower. Logs of older formats, without a journal, are
// opened only with [Options.Upgrade] or [Options.ReadOnly].
//
// # Testing
//
// [OpenMemory] is the same engine on Pebble's in-memory file system. [Options.FS] accepts a file
// system that injects faults.
//
//snippet:type User struct{ Name string }
package pebblelog

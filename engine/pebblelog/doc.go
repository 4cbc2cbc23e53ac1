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
// tier first (read.go, read_stream.go, feed.go). Other reads go to Pebble (scan.go). The sweeper removes what has expired or
// exceeds limits (sweep.go), the reclaimer gives its disk space back (reclaim.go). The layer
// below Pebble stops the log after a failed write (guard.go). Package internal/format has
// every key and value; docs/format.md draws them.
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

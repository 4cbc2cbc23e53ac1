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
// It obeys all eight laws of package mainstem. One commit of the write-ahead log
// carries every batch that waits at that moment (group commit). A reader never
// sees a batch that is not yet as durable as was asked for. Batch IDs are remembered
// for [Options.BatchIDAge].
//
// What a killed process or a power cut leaves behind is put right by the next
// Open. A write that fails (a full or broken disk) leaves the log readable and
// refusing commits with Unavailable until it is opened again; the batches in
// commitGate report an unknown outcome. [Options.MinFree] stops commits before the
// disk is full. The disk space of what is removed comes back while the log is open,
// in the background.
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
// keys: it is bounded by CacheBytes, twice MemTableBytes and KeyStateCache, plus
// about 1 KiB for each space and each follower.
//
// # Testing
//
// [OpenMemory] is the same engine on Pebble's in-memory file system. [Options.FS]
// takes a file system that injects faults.
//
//snippet:type User struct{ Name string }
package pebblelog

// Package footprint is the suite of what a server takes: the time until its first
// answer, resident memory, pauses of its garbage collector, the size of its program,
// and the disk that a record needs.
//
// # Nouns
//
// A [Factory] is a contender: it builds a program and starts it as a process of its
// own, a [Server], which is asked over its own protocols.
//
//	func BenchmarkFootprint(b *testing.B) {
//		footprint.Run(b, footprint.Factory{Name: "mine", Build: build, Start: start})
//	}
//
// # Workloads
//
// start: from starting the process, on an empty directory and on one with records,
// until something has been written and read back. memory: the resident memory of the
// process, idle, with 1,000 connections that have each asked something, with 1,000
// partitions that each hold a message, and with a hundred thousand keys (a million in
// scale tests). pauses: those in which the collector stops the program, while 200,000
// messages of 1 KiB are stored. binary: the size of the program. disk: bytes in the
// directory for each of 20,000 records of 100 bytes that were written five times over,
// when compaction has come to rest.
//
// # Guarantees
//
// What is measured is another process, so nothing of the bench is in it. After the
// measurement the server is asked for what it was given: every key and every
// partition. Memory is the median of several looks, after the work.
//
// # Limits
//
// Resident memory needs /proc or the program ps.
//
// # Testing
//
// The tests have servers that answer before they can, forget keys, and have fewer
// partitions and connections than they say, and expect that each is caught.
//
//snippet:var build, start = footprint.Factory{}.Build, footprint.Factory{}.Start
package footprint

// Package peers opens the stores and servers of others for the contenders of all
// suites: each in one place, so that a peer has the same options in every suite.
//
// # Nouns
//
// A peer is a library or a server that Mainstem is measured against. [OpenPebble],
// [OpenBadger], [OpenBolt], [DialNATS] and [OpenSchema] open one, at a durability.
// What a suite asks of it (a key, an event, a message) is for the contender of that suite
// to write.
//
// # Guarantees
//
// Every peer has its default options but for the durability and, in memory, the file
// system. What is closed leaves nothing on a server: a schema goes with its pool.
//
// # Concurrency and ownership
//
// What is opened belongs to the caller, who closes it, and may be used from many
// goroutines as far as the library allows it.
package peers

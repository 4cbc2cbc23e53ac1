// Package stream is the suite of workloads for streams of messages: what producers
// and consumers do over the network, what a broker does to the bytes of its
// protocol, and what its storage does.
//
// # Nouns
//
// A [Message] has a key and a value. A [Factory] is a contender; it opens what it
// can take part in: a [Client], a [Protocol], a [Log], a [Table].
//
//	func BenchmarkStreams(b *testing.B) {
//		stream.Run(b, stream.Factory{Name: "mine", Durability: suite.Fsync, Client: open})
//	}
//
// # Workloads
//
// client: one message at a time and a hundred at once, of 100 bytes, 1 KiB and
// 10 KiB, by 1, 10 and 100 producers, each with a connection of its own; the
// message of 13 and 30 bytes that others have measured; fetching what was stored in
// batches or singly; and the time from sending a message until a waiting consumer
// has it. protocol: requests to produce 1 and 100 messages, and to fetch, to bytes
// and back. storage: appending messages of a few bytes singly, by five and by a
// hundred; reading 128 of a thousand and looking up one of ten thousand; and
// putting, getting and scanning as a table in memory does.
//
// # Guarantees
//
// A send ends when all of its messages have the durability that the row states. A
// fetch returns messages: an empty one fails the row. Nothing is closed in the timed
// part. All contenders get the same bytes, which do not compress and say which
// message they are; making them is not timed. After each round of sends the topic is
// read back: every message once, unchanged, those of a producer in order. Fetches
// and reads are compared with what was stored, number by number in the timed part
// and byte by byte after it.
//
// # Concurrency and ownership
//
// A producer or consumer belongs to one goroutine; a client may be asked for several.
// Messages are borrowed until the call returns, what is fetched or read until the
// next call.
//
// # Testing
//
// The tests have contenders that lose, repeat, reorder and change messages, return
// nothing or what is old, and expect that each is caught.
//
//snippet:var open = stream.Factory{}.Client
package stream

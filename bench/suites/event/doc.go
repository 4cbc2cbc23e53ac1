// Package event is the suite of workloads for event stores: appends with and
// without expectations, loads, feeds, subscriptions, and what a store leaves on disk.
//
// # Nouns
//
// A [Store] is what a contender must do: append [Event]s to streams, load them as
// [Recorded] ones, and feed all of them in one order. A [Subscriber] follows that
// order. A [Factory] opens stores and says how durable their appends are. To measure
// your own:
//
//	func BenchmarkStores(b *testing.B) {
//		event.Run(b, event.Factory{Name: "mine", Durability: suite.Fsync, Open: open})
//	}
//
// # Workloads
//
// A small event is 61 bytes of JSON; events of a batch have 42 to 49 bytes; one with
// metadata has four IDs and three entries besides.
//
//	append/…          to a new stream each time: one event, batches of 5 to 100, with
//	                  metadata, expecting version 1, 8 and 32 workers; to the same stream
//	load/…            all of a stream of 10 to 10,000 events, the second half of 1,000
//	mixed/…           loads and appends, 80 to 20 and 20 to 80; loads of streams that are written
//	info/…            of a stream, the last position
//	contention/…      8 writers on one stream, with expected versions and without
//	feed/page, feed/catch-up      the order of all streams, by pages and by a subscription
//	subscribe         from the append to its arrival at a subscription
//	cold, recovery, disk          loads after a start with empty caches, opening what a
//	                  killed process left, bytes in the files of a store that was closed
//	scale/…           a million events (fewer where each waits for a disk or a network)
//
// # Guarantees
//
// All contenders append the same bytes to streams of the same names. A round begins
// with new streams; what the round before wrote is cleared, untimed. Checks are not
// timed: streams are read back whole, with versions, types, data and metadata; short
// rounds are counted in the feed, and its order is compared with that of the streams.
//
// # Concurrency and ownership
//
// A store is called from as many goroutines as the case has clients.
//
// # Limits
//
// On Linux the cold case puts the files out of the page cache; elsewhere they stay.
//
// # Testing
//
// The tests have stores that cheat, and expect that each is caught.
//
//snippet:var open = event.Factory{}.Open
package event

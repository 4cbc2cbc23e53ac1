// Package eventtopic shows event stores as topics that Kafka's consumers can read.
//
// # Words
//
// A [Catalog] is all event topics of a log. A [Topic] is one: event.<store> shows
// every event of a store, event.<store>.<category> those of one category of its
// streams. It has one partition. Its records are the events, as the store's own feed
// shows them by default: without those of archived streams, and without the
// tombstones that deleted streams leave.
//
//	topics := eventtopic.Open(log, nil)
//	defer topics.Close()
//	t, err := topics.Topic(ctx, "event.orders")
//	chunk, err := t.Read(ctx, 0, 0, nil)
//
// # A record
//
//	key        the name of the stream
//	value      the data; null if the event has none
//	timestamp  when the event was committed
//	offset     its position in the log, so offsets rise but have gaps
//	headers    see [HeaderType] and its neighbours; those without a value are left out
//
// # Guarantees
//
// Those of package feedtopic: offsets never change, what is gone is passed over.
//
// An ID follows from the name of the store, the time it was created and the category,
// so it is the same after every restart, and another one if a store was dropped and
// created anew.
//
// # Names
//
// A store or category whose name cannot be in that of a topic (see
// [topic.ValidateName]) is left out. event.a.b is the store a.b if there is one, else
// category b of store a. A category exists as long as the log knows a stream of it,
// also one that was deleted. [Catalog.All] lists the categories of a store only if
// there are few, see [MaxCategories]; the others can be read all the same.
//
// # Concurrency and ownership
//
// Everything may be called from many goroutines. A catalog owns one goroutine for
// each store that somebody waits for, see [feedtopic.Topic.Notify], and none otherwise. Close it
// before the log. It never writes.
//
// # Limits
//
// Those of package feedtopic. Reading a category
// reads what the engine reads for a key prefix: the feed of the whole store.
package eventtopic

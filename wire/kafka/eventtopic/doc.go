// Package eventtopic shows event stores as topics that Kafka's consumers can read.
//
// # Words
//
// A [Catalog] is the event topics of a log, and a [partition.Source] of package kafka. The
// topic event.<store> shows every event of a store, event.<store>.<category> those of one
// category of its streams. A topic has one partition. Its records are the events in the
// order of the store's feed, without events of archived streams, and without the tombstones
// of deleted streams.
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
//	offset     its position in the log, so offsets rise and have gaps
//	headers    see [HeaderType] and the constants with it; those without a value are left out
//
// # Guarantees
//
// Those of package feedtopic: the offset of an event never changes, and a reader at an offset
// whose event is gone gets the next event.
//
// The ID of a topic is computed from the name of the store, the time when it was created and
// the category. So it is the same after every restart, and another one if the store was
// dropped and created again, unless both commits have the same time.
//
// # Names
//
// A store or category is left out if no topic can have its name, see [topic.ValidateName].
// event.a.b is the store a.b if there is one, else category b of store a. A category exists
// as long as the log has a record of one of its streams, even a tombstone. [Catalog.All]
// lists the categories of a store only if there are few, see [MaxCategories]; others can be
// read by name.
//
// # Concurrency and ownership
//
// Everything may be called from many goroutines. A catalog owns one goroutine for each
// store for which a consumer waits ([partition.Shown].Notify), and none otherwise. Close it
// before the log. It never writes. Topics serve until the catalog is closed.
//
// # Limits
//
// Those of package feedtopic. Reading a category costs as much as a feed with a key prefix
// costs the engine, which may read the feed of the whole store.
package eventtopic

// Package topic gives a log the meaning of Kafka's topics: partitions of records
// with offsets, retention and compaction, producers and consumers, stored batch by
// batch as Kafka clients send them.
//
// # Words
//
// A [Catalog] is the set of topics of a log, a [Topic] one of them. A topic has
// partitions, numbered from 0; a partition holds record batches, and each record
// has an offset: 0, 1, 2 … A [Producer] turns records into batches, [Topic.Consume]
// turns batches into records, [Offsets] are where a consumer group goes on. Package
// [github.com/mainstemdev/mainstem/topic/recordbatch] is the format of a batch.
//
//	topics, err := topic.Open(log, nil)
//	orders, err := topics.Ensure(ctx, "orders", topic.Spec{Partitions: 3}) // creates it at the first start
//	orders.PublishTo(b, topic.Record{Key: id, Value: order}) // one commit with whatever else is in b
//	for r, err := range orders.Consume(ctx, &topic.ConsumeOptions{Follow: true}) { … }
//
// What a server of Kafka's protocol needs beyond that, such as markers of transactions and all
// that a group has stored, is in [github.com/mainstemdev/mainstem/topic/partition], on which
// this package is built.
//
// Writes have two forms: Publish(ctx, …) publishes at once, PublishTo(b, …) as part of a
// batch; so have Append and the methods of Offsets. A program that publishes much uses a
// Producer.
//
// # In the log
//
// A topic is the space topic/<name>. The key of a partition is its number, 4
// bytes, big-endian; each of its records is one record batch exactly as received,
// of as many items as the batch has offsets. So the log itself counts the offsets:
// the record's version minus one is the offset of the last record in the batch.
// Appending needs no lock, no condition and no look at what is there. Base offset
// and leader epoch lie outside of the batch's checksum and are filled in when it
// is read.
//
// Two more keys of the space hold the topic's description, all versions of it,
// and its ID; creating and deleting a topic is one step each. What upkeep notes,
// above all where partitions begin, is in the space [IndexSpace], stored offsets in
// [partition.GroupSpace].
//
// # Guarantees
//
// Offsets are given once, in commit order, without gaps; they never change.
// Compaction and aborted transactions leave holes, as in Kafka. When an append
// returns, the batch has the durability asked for, and every reader sees it. Batches
// for several partitions, stored offsets and any other writes in one
// [mainstem.Batch] become visible together or not at all. A reader never sees part
// of a batch. Retention, compaction and DeleteRecords survive a crash at any point:
// what they had not finished, they finish later.
//
// # Kafka's configurations
//
// [ConfigKeys] lists them; anything else is Invalid. Retention works on batches
// instead of files: a partition may lose even its newest batch when that is older
// than retention.ms, and keeps at least retention.bytes. Note that the default
// retention.ms of 7 days looks at the records' timestamps: old data with its own
// timestamps needs "-1". Compaction never touches the newest batch of a partition.
//
// # Concurrency and ownership
//
// Everything may be used from many goroutines. Bytes given to Append and Publish
// are borrowed until the commit returns; those given to a Producer are copied.
// What Read returns belongs to the caller; what Consume yields is lent until the
// loop body returns. The catalog owns one goroutine for upkeep, and one for each
// topic that somebody waits for; a producer owns one. Close ends them.
//
// Several catalogs on one log, also in several processes, work together: topics
// are looked up where they are stored, and changes are made on condition that
// nobody else was faster. A handle that is held for long learns what others change
// when it is asked for again, when somebody waits on the topic, or from upkeep. The
// rule that names may not differ only in '.' and '_' is checked by one catalog at a time.
//
// # Limits
//
// [MaxName], [MaxPartitions], [recordbatch.MaxRecords],
// [recordbatch.MaxUncompressed], and max.message.bytes, which [Options.MaxMessage]
// bounds. Memory: about 300 bytes for each partition, 64 bytes for each extent of 4
// MiB or 1,024 batches that it holds, [Options.CompactionBytes] while a partition
// is compacted, and [ProducerOptions.BufferBytes] for each producer.
//
// # Testing
//
// Batches are exchanged with franz-go's encoders and consumer code in both
// directions. Random programs of appends, upkeep, restarts and lookups are compared
// with models of retention and of compaction, on the reference log and on the
// embedded engine.
//
//snippet:var id, order []byte
package topic

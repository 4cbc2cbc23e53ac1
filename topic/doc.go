// Package topic gives a log the meaning of Kafka's topics: partitions of records with offsets,
// retention and compaction, producers and consumers. It stores record batches as Kafka clients send
// them.
//
// # Words
//
// A [Catalog] is the set of topics of a log, a [Topic] is a handle of one topic. A topic has
// partitions, numbered from 0. A partition is a sequence of record batches. Each record has an
// offset: 0, 1, 2 and so on. A [Producer] collects records into batches and appends them.
// [Topic.Consume] reads batches and yields their records. [Offsets] are the offsets at which a
// consumer group continues. Package [github.com/mainstemdev/mainstem/topic/recordbatch] is the
// format of a batch.
//
//	topics, err := topic.Open(log, nil)
//	orders, err := topics.Ensure(ctx, "orders", topic.Spec{Partitions: 3}) // creates it at the first start
//	orders.PublishTo(b, topic.Record{Key: id, Value: order}) // one commit with the other writes in b
//	for r, err := range orders.Consume(ctx, &topic.ConsumeOptions{Follow: true}) { … }
//
// Writes have two forms: Publish(ctx, …) commits at once, PublishTo(b, …) adds to a batch of the
// log. Append and the writes of Offsets have both forms, too.
//
// Package [github.com/mainstemdev/mainstem/topic/partition], on which this package is built, has
// the types that only a server of Kafka's protocol needs, such as markers of transactions.
//
// # How it works
//
// A topic is the space topic/<name>. The key of a partition is its number, 4 bytes, big-endian.
// Each record of that key is one record batch, exactly as it was received, with as many items as
// the batch has offsets. So the log itself gives the offsets: the version of the record minus one
// is the offset of the last record in the batch. An append needs no lock and no condition, and
// reads nothing. The base offset and the leader epoch of a batch, which its checksum does not
// cover, are written when it is read.
//
// The space has two more keys: the topic's description, in all its versions, and the topic's ID.
// Creating and deleting a topic are one commit each. The space [IndexSpace] has where each
// partition starts, and summaries of its batches for retention, compaction and lookups by time; the
// index is updated by upkeep and not by appends. Stored offsets are in [partition.GroupSpace].
//
//	catalog.go, admin.go, ensure.go       handles of topics; creating, altering, deleting them
//	topic.go, name.go, errors.go          a handle, its partitions, starts and ends
//	config.go, layout.go                  configurations; keys and values in the log
//	append.go, publish.go, partitioner.go writes
//	producer.go, send.go                  collecting records into batches
//	read.go, wait.go, consumer.go         reads
//	lookup.go                             offsets by time
//	group.go                              offsets of consumer groups
//	index.go, upkeep.go, trim.go          the index, work in the background, retention
//	compact.go, clean.go, offsetmap.go    compaction
//
// # Guarantees
//
// Offsets are given once, in commit order, without gaps, and never change. Compaction and aborted
// transactions leave holes, as in Kafka.
//
// Durability: when a write returns, it has the durability asked for, by default that of the log,
// and every reader sees it.
//
// Atomicity: record batches for several partitions, stored offsets and any other writes in one
// [mainstem.Batch] become visible together or not at all. A reader never sees part of a record
// batch. After a crash at any point of retention, compaction or DeleteRecords, upkeep finishes the
// work.
//
// # Kafka's configurations
//
// [ConfigKeys] lists them; others are Invalid. There are these differences:
//
//   - Retention removes record batches, not files of them. If even the newest batch of a partition
//     is older than retention.ms, it is removed, too. For retention.bytes, a batch is removed only
//     if at least that many bytes remain.
//   - retention.ms, by default 7 days, applies to the timestamps of records. For old data with
//     timestamps of its own, set it to "-1".
//   - Compaction never changes the newest batch of a partition.
//
// # Concurrency and ownership
//
// All functions and methods may be called from many goroutines. Append borrows the bytes that it is
// given until the commit returns; Publish and Produce copy the records. The bytes that Read returns
// belong to the caller. A record that Consume yields is lent until the loop body returns. A catalog
// owns one goroutine for upkeep, and one for each topic that has waiters; a producer owns one.
// Close ends them.
//
// Several catalogs on one log, in several processes too, work together. Descriptions are read from
// the log, and changes are made on condition that no other process was first. A handle learns of
// the changes of other catalogs from [Catalog.Topic], from a waiter's follower, and from upkeep.
// Until then, if another catalog has deleted the topic and created it again, appends and reads of
// the handle are those of the new topic.
//
// # Limits
//
// [MaxName], [MaxPartitions], [recordbatch.MaxRecords], [recordbatch.MaxUncompressed], and
// max.message.bytes, which [Options].MaxMessage bounds. Catalogs do not coordinate the rule that
// names may not differ only in '.' and '_'. Memory: about 300 bytes for each partition, 64 bytes
// for each extent of 4 MiB or 1,024 batches, [Options].CompactionBytes while a partition is
// compacted, [Options].Memory for decompressed batches, and [ProducerOptions].BufferBytes for each
// producer.
//
// # Testing
//
// The tests exchange batches with franz-go's encoders and consumer code in both directions. Random
// programs of appends, upkeep, restarts and lookups are compared with models of retention and of
// compaction, on the reference log and on the embedded engine.
//
//snippet:var id, order []byte
package topic

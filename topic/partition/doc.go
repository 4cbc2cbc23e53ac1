// Package partition has the parts of topics that only a server of Kafka's protocol needs. Package
// topic, which is for programs, is built on it.
//
// # Words
//
// A [Partition] appends record batches as clients sent them, and the [recordbatch.Marker]s that end
// transactions. A [Slot] returns the offsets of a batch after the commit. A [Reader] is a topic for
// reading. A [Source] presents other contents of a log, such as event stores, as topics that can be
// read; each of them is a [Shown]. [Offsets] are the offsets that a consumer group has stored for a
// Reader. [StoredOffsets] yields all that a group has stored. An [ID] identifies a topic.
//
//	p, err := orders.Partition(0) // orders is a *topic.Topic
//	slot, err := p.AppendTo(ctx, b, batch) // an invalid batch is an error and leaves b as it was
//	receipt, err := log.Commit(ctx, b)
//	fmt.Println(slot.In(receipt).Base)
//
// # In the log
//
// A record batch is a record of its topic's space. Its key is that of the partition, and it has as
// many items as the batch has offsets. Stored offsets are in [GroupSpace]: the key is the letter
// 'o' with group, name of the topic and partition, the value the topic's ID and the [Offset]. A
// server that stores more about groups there uses keys that begin with other letters.
//
// # Guarantees
//
// An append or a stored offset is written when the batch of the log is committed, with the
// durability of that commit, together with all else in the batch or not at all. The commit
// determines the offsets of an append: appending reads nothing from the log and holds no lock.
// Package topic states the guarantees of offsets and reads.
//
// # Concurrency and ownership
//
// Everything may be used from many goroutines. The package starts none. Bytes given to AppendTo are
// borrowed until the batch is committed. [Partition.AppendOwnTo] may change the bytes that it is
// given.
//
// # Limits
//
// [MaxGroup], [MaxOffsetMetadata], and those of packages topic and recordbatch.
//
//snippet:var orders *topic.Topic
//snippet:var batch []byte
package partition

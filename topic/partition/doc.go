// Package partition is what a server of Kafka's protocol needs of topics beyond package topic,
// which is built on it and is for programs.
//
// # Words
//
// A [Partition] takes record batches as clients sent them, and the markers that end
// transactions; a [Slot] says after the commit where a batch went. A [Reader] is what consumers
// read: a topic, or what a [Source] shows as one, a [Shown]. [Offsets] are what a consumer group
// has stored for one of these; [StoredOffsets] yields all that a group has stored. [ID] names a
// topic for its whole life.
//
//	p, err := orders.Partition(0) // orders is a *topic.Topic
//	slot, err := p.AppendTo(ctx, b, batch) // what may not be stored leaves b as it was
//	receipt, err := log.Commit(ctx, b)
//	fmt.Println(slot.In(receipt).Base)
//
// # In the log
//
// A record batch is a record of its topic's space under the key of the partition, of as many
// items as the batch has offsets. Offsets of groups are in [GroupSpace]: the key is the letter
// 'o' with group, name of the topic and partition, the value the topic's ID and the [Offset]. A
// server that keeps more about groups there uses keys that begin with other letters.
//
// # Guarantees
//
// Nothing is written before the batch of the log is committed, and then all of it at once, with
// the durability of that commit. Offsets follow from the commit: appending reads nothing from
// the log and holds no lock. Package topic says what holds for offsets, and what readers see.
//
// # Concurrency and ownership
//
// Everything may be used from many goroutines; nothing here starts one. Bytes given to
// AppendTo are borrowed until the batch is committed; those of [Partition.AppendOwnTo] may be
// changed.
//
//snippet:var orders *topic.Topic
//snippet:var batch []byte
package partition

// Package producer keeps the producers of Kafka clients: it gives out producer
// ids, stores each of their batches once, and coordinates their transactions.
//
// # Words
//
// A producer has an id and an epoch, and numbers its batches in each partition, so
// that a batch which is sent again is known again. A transactional id names a
// producer for good: the client that initialises it gets the next epoch and thereby fences
// the client that had it. A transaction is batches in partitions and offsets of consumer
// groups that become visible together, or never. The last stable offset of a
// partition is where its first undecided batch begins. A [Manager] does all of it
// for one log.
//
//	m, err := producer.Open(ctx, topics, nil)
//	m.Append(ctx, producer.AppendOptions{}, appends)            // Produce
//	resp := m.InitProducerID(ctx, client, req)                  // one method for each API key
//	stable, err := m.Stable(ctx, t, partition, end)             // Fetch, ListOffsets
//	aborted, err := m.Aborted(ctx, t, partition, offset, stable)
//
// # In the log
//
// What is known about producers follows from the headers of the batches in the
// partitions. The first batch with a producer id in a partition writes, in the same
// commit, that there are such batches from here on; every so many batches a
// snapshot rides along with an append. After a start, a partition is recovered when
// it is first needed, from its newest snapshot on.
//
// Producing to a partition, or storing an offset, writes in the same commit that the
// transaction includes it. The end of a transaction is one commit as well: markers
// in its partitions, the offsets as the groups' own, and the state of the
// transactional id. So there is no state between open and ended, nothing to resume
// after a crash, and no message from one broker to another.
//
// All of it is in the space [Space]; layout.go draws the keys and encode.go the
// values.
//
// # Guarantees
//
// A batch with a producer id that was acknowledged is in its partition once,
// however often it was sent, also after a crash, as long as it is among the last
// five of its producer there. Producer ids are never given out twice. Everything
// that a transaction did becomes visible in one moment or never, to every reader,
// after any crash. Below the last stable offset everything is decided.
//
// When a commit fails with an unknown outcome, the partitions and the transactional
// id are read again from the log before anything else happens to them, and the
// client is told to try again. This relies on a log that, once it is read, does not
// change its mind: one behind a network that may still carry the batch does not
// qualify.
//
// # Differences from Kafka
//
// Transactions V1 and V2 (KIP-890) are served side by side. The states PrepareCommit
// and PrepareAbort do not occur. A client that asks with a producer id and epoch to
// go on (KIP-360) and was fenced is refused even while the transaction of its
// successor is open, which Kafka would abort. A producer of which a partition knows
// nothing but a marker may go on with any sequence number.
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines. Producers do not wait for each
// other, so that their commits share fsyncs; batches of one producer for one
// partition, and requests of one transactional id, follow one another. Bytes of
// batches are borrowed until Append returns. The manager owns one goroutine, which
// sleeps until a transaction is overdue or upkeep is due; Close ends it.
//
// A log must have one manager at a time.
//
// # Limits
//
// [MaxTransactionalID], [MaxPartitions], [MaxTxnGroups] and [MaxTxnOffsets] bound a
// transaction, [Options.MaxTimeout] how long it may be open. Memory: about 300 bytes
// for each producer that a partition has heard of within [Options.ProducerExpiry], 24
// bytes for each aborted transaction that retention has not reached, and what open
// transactions hold.
//
// A snapshot must come before retention or compaction removes a producer's newest
// batch from a partition, else the producer is unknown there after a crash. Upkeep
// makes one every [Options.Every].
//
// # Testing
//
// Tables of answers for each request; random programs of clients, failing commits and
// restarts, compared with what the clients were told; simulated power cuts in
// front of every file operation of a workload (TestPowerCut, -power.seeds); many
// clients at once on a log that fails; fuzzed decoders; golden bytes.
//
//snippet:import "github.com/twmb/franz-go/pkg/kmsg"
//snippet:var topics *topic.Catalog
//snippet:var appends []producer.Append
//snippet:var client coord.Client
//snippet:var req *kmsg.InitProducerIDRequest
//snippet:var t *topic.Topic
//snippet:var partition int32
//snippet:var offset, end int64
package producer

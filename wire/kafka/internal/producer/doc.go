// Package producer is the coordinator of Kafka's producers: it gives out producer ids, stores each
// of their batches once, and coordinates their transactions.
//
// # Words
//
// A producer has an id and an epoch. It numbers its batches in each partition (the sequence
// number), so that a batch that is sent again is recognised. A transactional id is a name for a
// producer. The client that initialises it gets the next epoch, which fences the client that had it
// before: requests with the old epoch are refused. A transaction is batches in partitions and
// offsets of consumer groups that become visible together or never. It is decided when it is
// committed or aborted, with a marker in each of its partitions. The last stable offset of a
// partition is the first offset of a transaction that is not decided, or the end. A [Manager] does
// all of this for one log.
//
//	m, err := producer.Open(ctx, topics, nil)
//	m.Append(ctx, producer.AppendOptions{}, appends)            // Produce
//	resp := m.InitProducerID(ctx, client, req)                  // one method for each API key
//	stable, err := m.Stable(ctx, t, partition, end)             // Fetch, ListOffsets
//	aborted, err := m.Aborted(ctx, t, partition, offset, stable)
//
// The states of a transactional id are drawn at status in transaction.go, the state of a producer
// in a partition at partitionState and producer.
//
// # In the log
//
// The state of the producers of a partition is derived from the headers of its batches. The first
// batch with a producer id in a partition writes, in the same commit, the head: an offset from
// which such batches may be found. After [Options.SnapshotEvery] batches, an append writes a
// snapshot of the producers and a new head in its commit. After a start, a partition is recovered
// when it is first used: from its newest snapshot and the batches from the head on.
//
// An append to a partition, or an offset of a group, writes in the same commit that the transaction
// includes it. The end of a transaction is one commit too: the markers in its partitions, the
// offsets of its groups, and the state of the transactional id. So there is no state between open
// and ended, nothing to complete after a crash, and no message between brokers.
//
// All of it is in the space [Space]; layout.go draws the keys and encode.go the values.
//
// # Guarantees
//
// A batch with a producer id that was acknowledged is in its partition once, however often it was
// sent, also after a crash, as long as it is among the last five of its producer there. Producer
// ids are never given out twice. All batches and offsets of a transaction become visible at the
// same moment or never, to every reader, after any crash. Below the last stable offset everything
// is decided.
//
// After a commit with an unknown outcome, the partitions and the transactional id are read again
// from the log before the next request changes them, and the client gets an error code that lets it
// try again. So the log must have applied or rejected such a commit for good when it answers the
// next read. A log behind a network that may still deliver the batch does not qualify.
//
// # Differences from Kafka
//
// Transactions V1 and V2 (KIP-890) are served side by side. The states PrepareCommit and
// PrepareAbort do not occur. A fenced client that sends InitProducerId with its producer id and
// epoch (KIP-360) is refused, also while a transaction of its successor is open; Kafka would abort
// that. A producer of which a partition has only a marker may continue with any sequence number.
//
// # Concurrency and ownership
//
// All methods may be called from several goroutines. Requests of different producers do not wait
// for each other, so that their commits share fsyncs. Batches of one producer for one partition,
// and requests of one transactional id, are handled one after the other. Bytes of batches are
// borrowed until Append returns. The manager owns one goroutine, which sleeps until a transaction
// times out or upkeep is due; Close ends it. A log must have one manager at a time.
//
// # Limits
//
// [MaxTransactionalID], [MaxPartitions], [MaxTxnGroups] and [MaxTxnOffsets] limit a transaction,
// [Options.MaxTimeout] how long it may be open. Memory: about 300 bytes for each producer with a
// batch in a partition within [Options.ProducerExpiry], 24 bytes for each aborted transaction above
// the start of its partition, and the partitions and offsets of open transactions.
//
// If retention or compaction removes the newest batch of a producer from a partition before a
// snapshot was written, the producer is unknown there after a crash. Upkeep writes one every
// [Options.Every].
//
// # Testing
//
// Tables of answers for each request; random programs of clients, failing commits and restarts,
// compared with the answers that the clients got; simulated power cuts before every file operation
// of a workload (TestPowerCut, -power.seeds); many clients at once on a log with failing commits;
// fuzzed decoders; golden bytes.
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

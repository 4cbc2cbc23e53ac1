package kafka

// Scenarios returns all of them, in the order of the table.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "produce-none", Promise: "plain batches with acks 0, 1 and all are stored as sent", run: produce("none")},
		{Name: "produce-gzip", Promise: "gzip batches with acks 0, 1 and all are stored as sent", run: produce("gzip")},
		{Name: "produce-snappy", Promise: "snappy batches with acks 0, 1 and all are stored as sent", run: produce("snappy")},
		{Name: "produce-lz4", Promise: "lz4 batches with acks 0, 1 and all are stored as sent", run: produce("lz4")},
		{Name: "produce-zstd", Promise: "zstd batches with acks 0, 1 and all are stored as sent", run: produce("zstd")},
		{Name: "record-parts", Promise: "keys, values, headers and times come back as they went", run: recordParts},
		{Name: "empty-value", Promise: "an empty key or value is not a missing one", run: emptyIsNotNil},
		{Name: "consume-start", Promise: "a consumer without a group reads all there is, in order", run: consumeStart},
		{Name: "consume-end", Promise: "a consumer at the end sees what comes and nothing older", run: consumeEnd},
		{Name: "consume-timestamp", Promise: "a consumer at a time begins with the first record at or after it", run: consumeTimestamp},
		{Name: "group", Promise: "three members share partitions; one leaves, one vanishes, and every record is read", run: groupOfThree(false)},
		{Name: "group-next", Promise: "the same with the protocol of KIP-848", run: groupOfThree(true)},
		{Name: "static-member", Promise: "a static member that comes back moves no partition of the others", run: staticMember},
		{Name: "commit-resume", Promise: "a group goes on where it committed", run: commitResume},
		{Name: "idempotent-resets", Promise: "connections cut anywhere lose, double and reorder nothing", run: idempotentResets},
		{Name: "transaction", Promise: "a committed transaction is seen, an aborted one is not", run: transaction},
		{Name: "transaction-offsets", Promise: "offsets are committed with the transaction or not at all", run: transactionOffsets},
		{Name: "read-uncommitted", Promise: "read_uncommitted shows open and aborted transactions", run: readUncommitted},
		{Name: "read-committed", Promise: "read_committed shows neither open nor aborted transactions", run: readCommitted},
		{Name: "admin-topics", Promise: "topics are created, listed, grown and deleted", run: adminTopics},
		{Name: "admin-configs", Promise: "configurations are shown and changed, unknown ones refused", run: adminConfigs},
		{Name: "admin-records", Promise: "records are deleted up to an offset, and the offsets say so", run: adminRecords},
		{Name: "admin-groups", Promise: "groups are listed, described and deleted; their offsets are shown", run: adminGroups},
		{Name: "security", Promise: "PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 over TLS let the right password in", Only: "mainstem", run: security},
		{Name: "events", Promise: "an event store is a topic to read, alone and in groups, and not to write", Only: "mainstem", run: events},
	}
}

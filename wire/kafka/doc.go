// Package kafka serves the protocol of Apache Kafka over the topics of a log: clients of
// any language produce, consume, form groups and run transactions against it.
//
// # Words
//
// A [Server] serves the topics of one catalog; [Open] makes it. [Server.Serve] accepts
// the connections of one net.Listener; a [Listener] holds the security of that listener and
// the address that it advertises. A [partition.Source] in [Options] shows other data of the
// log as topics that clients can only read: shown topics.
//
//	topics, err := topic.Open(log, nil)
//	server, err := kafka.Open(ctx, topics, nil)
//	l, err := net.Listen("tcp", "127.0.0.1:9092")
//	go server.Serve(l, nil)
//	…
//	server.Shutdown(ctx) // then topics.Close, then log.Close
//
// To clients the server is a cluster of one broker, which leads every partition and
// coordinates every group and transaction. Leader epochs are always 0.
//
// # Event stores
//
// With package eventtopic in [Options].Sources, an event store is a topic that can only be
// read: event.<store>, and event.<store>.<category> for each category of its streams. It has
// one partition. A record is an event: the key is the stream, the value the data, the
// timestamp the time of the commit, the offset the position in the log, so offsets have gaps.
// The other fields of the event are headers with text; fields without a value have none:
//
//	event-type  event-id  event-version  event-position  event-content-type
//	event-schema-version  event-correlation-id  event-causation-id  event-user-id
//	event-tenant-id  event-tags  metadata.<name>
//
// Events of archived streams and the tombstones of deletions are left out. A consumer
// whose next events were deleted continues with the events that follow. A store with
// more than 256 categories is listed without them; their topics can be read by name.
// Clients cannot create topics whose names begin with "event.", because a consumer may wait
// under such a name for the first event of a store. A topic of such a name that a program
// created hides the store.
//
// # Tables of alerts
//
// With package alert/kafkatopic in [Options].Sources, a table of alerts is a topic, too:
// alert.status shows the changes of alerts.status, and so on for the tables of the database
// alerts; alert.<database>.<table> shows those of other databases. A record is a row as it was
// after a change: the key is the primary key, the value a JSON object with all columns, null
// if the row was deleted; the headers are
//
//	alert-table  alert-change (write or delete)  alert-version  alert-position  alert-serial
//
// The log keeps the newest state of each row, so these topics are like compacted ones:
// offsets are positions in the log, and a consumer sees every change that was not superseded
// before the consumer read it.
//
// # Guarantees
//
// The batches of a produce request are one commit of the log, whatever partitions they are
// for; a request with more than 32 MiB of batches is several commits. The request is
// answered when its batches have the durability of the log (acks=all; fsync by default, one
// fsync for all that wait), or when the operating system has them (acks=1). Batches are
// stored as received. Fetches return whole batches and wait without polling. The answers of
// a connection come in the order of its requests. The end of a transaction is one commit:
// the markers in all partitions and the offsets of groups take effect together.
// Acknowledged writes survive a crash of the process at any moment, and with fsync a power
// cut.
//
// # Security
//
// A [Listener] may require TLS, a client's certificate, and SASL: PLAIN, SCRAM-SHA-256
// or SCRAM-SHA-512. Users are in the log ([UserSpace]) with the keys that SCRAM derives
// from their passwords; [Server.SetUser] and Kafka's own tools set them. Before a client has
// authenticated, only the requests that authentication needs are served. They may have at
// most 64 KiB and must come within [Options].AuthTimeout. The answers do not tell an unknown
// user from a wrong password. There are no ACLs: a client that has authenticated may do
// everything, setting passwords included.
//
// # How it works
//
// A connection has one goroutine. It reads the size of a request, reserves memory, reads
// the request, finds its API key in a table, decodes it, calls the handler, and writes the
// answer (conn.go, frame.go, dispatch.go). The handler of an API is in a file named after it,
// here or in internal/group and internal/producer, which hold the state of groups, producers
// and transactions; the header of the file lists the versions served and the
// simplifications.
//
//	server.go, options.go, conn.go             listeners and connections; limits
//	dispatch.go, frame.go, answers.go          table of APIs, frames, encoding of answers
//	memory.go, buffer.go, receive.go           memory of requests and answers
//	answer_costs.go                            memory that an answer may take because of its request
//	produce.go                                 record batches to one commit
//	fetch.go, fetch_session.go, fetch_wait.go  reading, sessions (KIP-227), waiting
//	source.go, topic_cache.go                  lookup of topics, shown topics included
//	auto_create.go                             topics created because a client names them
//	coordinate.go                              coordinators of groups and transactions
//	configs.go, admin.go, cluster.go           configurations, topics, the cluster
//	group_admin.go, group_reset.go, lag.go     groups in the log, for operators
//	secure.go, sasl.go, users.go, credentials.go  TLS, SASL, users
//	dummy.go                                   credentials that users who do not exist seem to have
//
// # Concurrency and ownership
//
// One goroutine serves a connection. While a Fetch, JoinGroup or SyncGroup waits, a second
// one notices when the client disconnects. The server owns connections and listeners; the
// catalog, the log and the sources are the caller's.
//
// # Limits
//
// [Options] names them: the size of a request, the bytes of all requests and of an answer,
// the number of connections, and how long a client may be silent or slow. Memory for a
// request grows with the bytes that have arrived, the counts in a request are checked before
// it is decoded, the memory that its answer may take because of them is reserved before it is
// served, and fetches return less when many answers wait to be sent. A silent or slow
// client costs its connection and the bytes that it has sent.
//
// The memory of requests and answers is reserved in [Options].Memory: first for a request,
// then for decompression, then for an answer. All connections reserve in this order, so
// they cannot deadlock. A client that makes no progress is disconnected when others wait for
// memory. See memory.go and answers.go.
//
// # Testing
//
// The clients franz-go, sarama and librdkafka, and raw requests, are run against real
// servers; the decoders of requests are fuzzed.
package kafka

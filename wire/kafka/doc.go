// Package kafka serves Apache Kafka's protocol over the topics of a log: clients of
// any language produce, consume, form groups and run transactions against it.
//
// # Words
//
// A [Server] serves the topics of one catalog; [Open] makes it. [Server.Serve] accepts
// the connections of one listener; a [Listener] has its security and the address that
// clients are given. A [partition.Source] in [Options] shows other data of the log as topics.
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
// An event store is a topic too, to be read only: event.<store>, and
// event.<store>.<category> for each category of its streams. It has one partition. A
// record is an event: the key is the stream, the value the data, the timestamp the
// time of the event, the offset its position in the log, so offsets have gaps. The other
// fields of the event are headers with text; those without a value are left out:
//
//	event-type  event-id  event-version  event-position  event-content-type
//	event-correlation-id  event-causation-id  event-user-id  event-tenant-id
//	metadata.<name>
//
// Events of archived streams and the tombstones of deletions are left out. A consumer
// whose next events were deleted goes on with those that follow. A store with
// more than 256 categories is listed without them; they can be read all the same.
// Clients cannot create topics whose names begin with "event.": a consumer may wait
// there for the first event of a store. Where a program created such a topic itself,
// that hides the store of its name.
//
// # Tables of alerts
//
// A table of alerts is a topic, too: alert.status shows the changes of alerts.status, and so on for
// the tables of the database alerts; alert.<database>.<table> those of other databases. A
// record is a row as it was after a change: the key is the primary key, the value a JSON
// object with all columns, null if the row was deleted; the headers are
//
//	alert-table  alert-change (write or delete)  alert-version  alert-position  alert-serial
//
// The log keeps the newest state of each row, so these topics are like compacted ones:
// offsets are positions in the log, and a consumer that follows sees every change that
// was not superseded before it came.
//
// # Guarantees
//
// A produce request is one commit of the log, whatever partitions it spans. It is
// answered when its batches have the durability of the log (acks=all, fsync by
// default, shared by all that wait), or when the operating system has them (acks=1).
// Batches are stored as received. Fetches return whole batches and wake without
// polling. The answers of a connection come in the order of its requests. The end of
// a transaction is one commit: markers in all partitions and the offsets of groups
// become true together. Acknowledged writes survive a crash of the process at any
// moment, and with fsync a power cut.
//
// # Security
//
// A [Listener] may require TLS, a client's certificate, and SASL: PLAIN, SCRAM-SHA-256
// or SCRAM-SHA-512. Users are in the log ([UserSpace]) with the keys that SCRAM derives
// from their passwords; [Server.SetUser] and Kafka's own tools set them. A client that has
// not authenticated can send only the requests that authentication needs, which must be
// small and come within [Options].AuthTimeout. The answers do not tell an unknown user
// from a wrong password. There are no ACLs: a client that has authenticated may do
// everything, setting passwords included.
//
// # How it works
//
// A connection has one goroutine: it reads the size of a request, reserves the memory,
// reads and decodes it, looks its key up in a table, calls the handler, and writes the
// answer (conn.go, frame.go, dispatch.go). Each request of the protocol has a file with its
// name, whose header lists the versions and what is simplified. The state of groups,
// producers and transactions is in packages below internal.
//
//	server.go, options.go, conn.go         connections; limits; one connection
//	dispatch.go, frame.go, answers.go      the table of requests, headers, encoding answers
//	memory.go, buffer.go, receive.go       memory of requests and answers
//	produce.go                             record batches to one commit
//	fetch.go, fetch_session.go, fetch_wait.go  reading, sessions of KIP-227, waiting
//	source.go, topic_cache.go              topics, and what is shown as topics; their lookup
//	coordinate.go                          coordinators of groups and transactions
//	configs.go, admin.go, cluster.go       configurations, topics, the cluster's description
//	group_admin.go, group_reset.go         groups in the log, for operators
//	secure.go, users.go, credentials.go    TLS, SASL, users
//
// # Concurrency and ownership
//
// One goroutine serves a connection; a fetch that waits has a second one, which
// notices when the client goes away. The server owns connections and listeners; the
// catalog and the log are the caller's.
//
// # Limits
//
// [Options] names them: the size of a request, the bytes of all requests, of an
// answer, the connections, and how long a client may be silent or slow. Memory for a
// request grows with what has arrived of it, the counts in a request are checked
// before it is decoded, and answers get smaller when many wait to be sent: a silent, slow
// or malicious client costs no more than its connection and the bytes that it has sent.
//
// The memory of requests and answers is reserved from [Options].Memory before it is used,
// first for a request, then for decompression, then for an answer. All reserve in this
// order, so no deadlock is possible. A client that makes no progress is disconnected when
// others wait for memory.
//
// # Testing
//
// The clients franz-go, sarama and librdkafka, and raw requests, are run against real
// servers; the decoders of requests are fuzzed.
package kafka

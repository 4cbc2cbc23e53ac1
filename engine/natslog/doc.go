// Package natslog is the engine for more than one machine: a log in a stream of NATS
// JetStream, which one server or a cluster of them keeps, and which any number of
// processes share.
//
//	log, err := natslog.Open("nats://one:4222,nats://two:4222?stream=ORDERS&replicas=3", nil)
//	if err != nil { ... }
//	defer log.Close()
//	users, err := kv.Open[User](log, "app/users", nil)
//
// # How a log lies in a stream
//
// Every commit is one message: a frame, with all batches that were waiting. Its header
// states facts (a record of a key with version and position, the floor of a key, a
// space, the receipt of a batch ID), its payload holds the bodies of the records. The
// server stores a message wholly or not at all, which is law 1 for the price of a plain
// publish; a batch too large for one message becomes an atomic batch publish of several.
//
// Every process replays the facts, not the bodies, and so holds the state of the log in
// memory: where each record lies, the newest version of each key, the policies. A commit
// is evaluated on that state, conditions and all, and published with the header
// Nats-Expected-Last-Sequence: the server takes it only if nothing has come between.
// Else the process reads what did and evaluates anew. So there is one order, conditions
// hold at their place in it, versions need no lock, and positions are counted 1, 2, 3
// without holes in every process alike.
//
// A frame of which nothing counts any more is deleted, and one of which little counts is
// stated anew in a new frame first; this is what history, age and size limits, deletion
// and redaction lead to. File frame.go draws the bytes.
//
// # Guarantees
//
// The laws of package mainstem, between any number of processes, with these remarks:
//
//   - Law 2. A Log sees its own commits at once, and those of other processes in the same
//     order a moment later, unless [Options.Latest] makes every read ask the leader.
//     A failed condition is reported only after the leader has confirmed the state.
//   - Law 3. How durable a commit is when it returns is the setting of the servers, not
//     of the batch: a quorum of the replicas has it. A server writes to the operating
//     system at once and syncs every sync_interval, two minutes by default: one server
//     whose power fails may lose that much, three in different places must fail
//     together. With sync_interval: always every commit is synced first, which is
//     [mainstem.Fsync]. Package embedded does so by default.
//   - Law 5. When no answer comes, the engine asks again until [Options.Timeout]: the place
//     of a frame can be taken only once, so what happened to it can be found out: the tail
//     shows it, and the leader when it says that the place is taken. Only if the servers
//     stay silent for that long, or the message there is deleted before this process sees
//     it (which takes [Options.Grace] at least), the outcome is unknown.
//   - Law 6. Batch IDs are remembered for [Options.BatchIDAge]. Their receipts are in the
//     same message as what the batch wrote.
//
// It does not offer [mainstem.Snapshotter] and [mainstem.Backuper]: copies of a stream
// are the business of the nats tool, and of mainstem copy.
//
// # Servers that are slow or not all there
//
// A request that is not answered within two seconds is sent again, and later ones wait
// longer, up to eight, as long as answers come late. A server that answers no ping for
// [Options.Silence] is taken for gone, and the connection is made anew. A caller whose context
// ends is answered within about 100 ms, also when its commit is on the way: the outcome is
// unknown then, and commits in the same frame go on. What can pass by itself (an
// election, a cluster that has just started and has too few servers yet, lack of
// resources) is tried again until [Options.Timeout] and then Unavailable. Invalid is only
// what the servers would refuse at any time.
//
// A process that was cut off, or stood still, for so long that messages have left the stream
// before it saw them reads the headers of the whole stream again, logs it, and goes on with the
// new state. It holds two states meanwhile: reads go on with the old one, unless
// [Options.Latest] makes them wait, and commits wait.
//
// # Concurrency and ownership
//
// A Log may be used from many goroutines. Batches that wait at the same time share one
// frame. Processes that write at the same time compete: each commit of one makes the
// others try again, so together they are not faster than one. Where many processes write
// much, let one of them serve the log and the others open it with package remotelog.
// Times to live go by the clock of the process that looks; docs/engines.md says what a
// wrong one can do. Scan, Read and Feed lend bytes
// until the loop body returns; Get gives them away.
//
// # Limits
//
// Memory: about 150 bytes for each record, and more for each key with a long name, in
// every process, besides [Options.CacheBytes] for values. Opening reads the headers of
// the whole stream.
//
// A record with its key and headers must fit into one message of the server (max_payload,
// 1 MiB by default); a batch into [Options.MaxMessages] messages of at most 1 MiB and about
// 47 KiB of facts, or of one record. What does not fit is Invalid and names the limit. Reading one record reads
// its message.
//
// The stream belongs to the log: a message that another program publishes to its subject
// makes the log Corrupt. So does a stream that was made anew or restored, or has lost
// messages, while the log was open: it is to be opened again.
//
// # Testing
//
// The tests run the conformance suite on one server and on a cluster of three, stop
// leaders and servers during load, and lose answers on the way.
//
//snippet:type User struct{ Name string }
package natslog

// Package coordinator asks the object servers of many clusters at once: one statement in
// ObjectServer SQL, one answer with an entry for each cluster. Its HTTP API is that of
// nco-qoordinator.
//
// # Words
//
// A cluster is object servers with the same alerts, of which one is asked at a time: the
// current one. A [Backend] is one of them: an HTTP interface, IBM's or Mainstem's, or a
// server in this process. A pool holds the connections of a cluster; a breaker leaves a
// server alone that failed several times in a row.
//
//	config, err := coordinator.ParseConfig(yaml)
//	c, err := coordinator.Open(config, nil)
//	defer c.Close()
//	err = c.Server().ListenAndServe()
//
// # Guarantees
//
// A connection is only used for the credential, name and password, that it was made with.
//
// Each cluster has its own deadline, and its error is in its entry: a cluster that
// failed takes nothing from the others. When a connection or server is lost, the statement
// is sent again, to the next server if need be, if it only reads or certainly was not
// carried out; otherwise the error says that the outcome is unknown.
//
// A cluster moves to another server when the current one cannot be reached or fails its
// checks, and back to the first when that has been well again for the configured delay; both
// move connections that exist: idle ones are closed, those in use after their statement.
//
// Rows are the bytes that servers sent, without white space between them. An answer of a
// cluster that is longer than the configured stream_after is written as it comes; if
// such a cluster fails later, its entry has the rows until then and the error.
//
// # Errors
//
// Answers have the codes of [Code]. Functions return *mainstem.Error.
//
// # Concurrency and ownership
//
// Everything may be used by many goroutines. A Coordinator owns a goroutine for each
// cluster, and one for each but one of the clusters that a request asks while it runs. Close
// the coordinator before its backends.
//
// # Limits
//
// Those of [Config], each with a name and a default.
//
// # Testing
//
// The tests kill and start real servers under load, run random programs against a pool, and
// compare every answer that the served OpenAPI page documents with its schema.
//
//snippet:var yaml []byte
package coordinator

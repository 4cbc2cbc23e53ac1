// Package remotelog is a [mainstem.Log] that lives in another process: a client of a
// running Mainstem.
//
//	log, err := remotelog.Open("http://127.0.0.1:8080", nil)
//	defer log.Close()
//	users, err := kv.Open[User](log, "app/users", nil)
//
// # Words
//
// A [Log] is a client of one server; [Open] makes it without connecting, without TLS for
// http://, with TLS for https://. By default it has a session: one connection that carries all
// calls at a time (docs/sessions.md). Where a server or a proxy refuses that, it speaks Connect
// RPC in Protobuf over HTTP/2, or over HTTP/1.1 if a proxy speaks nothing else. [Options] chooses
// the [Transport], and gives it a token, other protocols of RPC, or an HTTP client of your own.
// [Log.Info] says what is used, and why.
//
// # Guarantees
//
// Those of the log behind the server; its errors arrive whole, so errors.Is and
// errors.As find the same as there. The network adds failures of its own:
//
//   - Unavailable and not written: no connection could be made.
//   - Unavailable and outcome unknown: the connection was lost after it was there, so
//     the request may have been served.
//   - Canceled: the context ended, not written before there was a connection, outcome
//     unknown after.
//
// A Commit of a batch with an ID that is Unavailable is tried again up to
// [Options.Retries] times, which is safe because the server knows the ID. If the first
// try was written and only its answer was lost, the receipt says Duplicate. If a later
// try fails for another reason, for instance with Conflict, the outcome stays unknown:
// an earlier try may still be on its way.
//
// A batch without ID is tried again as often in a session, and carried out once: the server
// remembers the commits of its clients by number and says in the next session if it still
// does (docs/sessions.md). If it was started anew, the outcome stays unknown. Over RPC a batch
// without ID is never sent twice.
//
// With [Options.BatchIDs] the outcome of every batch that writes is found, also when the server
// was killed: Commit tries until it knows, and fails with an unknown outcome only if its
// context ends or the Log is closed. A Conflict is then certain.
//
// Reads whose connection was lost before their first answer are tried again as well.
//
// A follower (Feed or Read with Follow) whose connection is lost, or whose server
// stops, connects again and goes on after the last record that the loop body
// returned from, so that it sees each record once and none is missing. It waits
// longer and longer, up to [MaxBackoff], for as long as its context and the Log live. It fails at once if the server could not be reached the first time. If
// what it resumes is not what it read before, it ends: with Corrupt if the server's
// log is shorter than what was read (another log, or an older backup), with NotFound
// if the space it reads was dropped and created anew.
//
// A sequence that does not follow and loses its connection on the way fails with
// Unavailable. A snapshot is held by the server as long as this process lives and is
// connected; it ends with Closed when the server has not heard of it for its lease.
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines; they share few connections. The
// bytes of records are not used again by the client, whatever the contract allows.
//
// A loop body that stands still holds up its own stream. What the server has sent of it and
// nobody has taken is at most 128 KiB, and 32 MiB for a session.
//
// # Limits
//
// Names, keys and headers are checked before anything is sent; the limits on values
// and batches are the server's, unless [Options.Limits] names them. Names of spaces
// and the metadata of policies must be UTF-8.
//
// # Testing
//
// The package passes the conformance suite of package enginetest over sessions and each protocol,
// and tests with a proxy that cuts connections say what becomes of commits and
// followers.
//
//snippet:type User struct{ Name string }
package remotelog

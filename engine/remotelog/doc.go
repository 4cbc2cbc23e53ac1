// Package remotelog is a client of a running Mainstem server. It implements [mainstem.Log] for
// a log that another process serves.
//
//	log, err := remotelog.Open("http://127.0.0.1:8080", nil)
//	defer log.Close()
//	users, err := kv.Open[User](log, "app/users", nil)
//
// # Words
//
// A [Log] is a client of one server; [Open] makes it without connecting, without TLS for
// http://, with TLS for https://. By default it uses a session: one connection that carries many
// calls at a time (docs/sessions.md). If a server or a proxy refuses sessions, it uses Connect RPC
// in Protobuf over HTTP/2, or over HTTP/1.1 behind a proxy that does not speak HTTP/2. [Options]
// selects the [Transport], the token, other protocols of RPC, or an HTTP client of your own.
// [Log.Info] returns the transport in use, and the reason.
//
// # Guarantees
//
// They are those of the log behind the server. Its errors are transmitted completely, so errors.Is
// and errors.As give the same results as there. The network adds failures of its own:
//
//   - Unavailable and not written: no connection could be made.
//   - Unavailable and outcome unknown: there was a connection, and it was lost, so the
//     request may have been served.
//   - Canceled: the context ended; not written if there was no connection yet, otherwise
//     outcome unknown.
//
// A Commit of a batch with an ID that fails with Unavailable is repeated up to [Options.Retries]
// times, which is safe because the log remembers the ID. If the first try was written and only
// its answer was lost, the receipt says Duplicate. If a later try fails for another reason, for
// instance with Conflict, the outcome stays unknown: an earlier try may still be on its way.
//
// In a session, a batch without an ID is repeated as often, and is executed once: the server
// records the commits of its clients by number, and the hello of the next session says whether
// it still has them (docs/sessions.md). If the server was restarted, the outcome stays unknown.
// Over RPC a batch without an ID is never sent twice.
//
// With [Options.BatchIDs] the outcome of every batch that writes is found, even after the server
// was killed: Commit repeats the call until the outcome is known. It fails with an unknown
// outcome only if its context ends or the Log is closed. A Conflict is then certain.
//
// Reads whose connection was lost before their first answer are repeated as well.
//
// A follower (Feed or Read with Follow) whose connection is lost, or whose server stops, connects
// again and continues after the last record that the loop body returned from. So it sees each
// record once, and none is missing. The pauses between its attempts grow up to [MaxBackoff]; it
// continues until its context ends or the Log is closed. It fails at once if the server could
// not be reached the first time. If the log or the space is not the one that it has read before,
// it ends: with Corrupt if the server's log is shorter than what was read (another log, or an
// older backup), with NotFound if the space was dropped and created again.
//
// A sequence that does not follow, and loses its connection, fails with Unavailable. The server
// holds a snapshot as long as this process runs and is connected. If the server receives no
// renewal for the time of a lease, reads of the snapshot fail with Closed.
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines; they share few connections. The client does not
// reuse the bytes of records, although the contract would allow it. The slice of Headers of a
// record that a loop yields is valid until the loop body returns.
//
// A slow loop body delays only its own stream. The server sends at most 128 KiB of a stream, and
// 32 MiB of a session, before the loop bodies have read it.
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
// and tests with a proxy that cuts connections verify the outcomes of commits and followers.
//
//snippet:type User struct{ Name string }
package remotelog

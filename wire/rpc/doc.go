// Package rpc serves a log over HTTP: the whole contract of package mainstem, for Go
// programs through package remotelog, by sessions, and for everything else through Connect,
// JSON, gRPC or gRPC-Web. The service is described in mainstem/v1/log.proto, sessions in
// docs/sessions.md.
//
// # Words
//
// A [Handler] serves one log; [NewHandler] makes it, and [Options] limits the requests
// of clients. [ConfigureServer] sets up an [http.Server] for it.
//
//	path, handler := rpc.NewHandler(log, nil)
//	mux := http.NewServeMux()
//	mux.Handle(path, handler)
//	mux.Handle(rpc.SessionPath, handler)
//	server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux}
//	rpc.ConfigureServer(server)
//	err := server.ListenAndServe()
//
// Calls with one answer work with curl. Bytes are base64 in JSON: "dXNlcnM=" is
// users, "NDI=" is 42.
//
//	curl -H 'Content-Type: application/json' \
//	  -d '{"ensures":[{"space":"kv/app/users"}],"writes":[{"space":"kv/app/users","key":"NDI=","value":"QWRh"}]}' \
//	  http://127.0.0.1:8080/mainstem.v1.LogService/Commit
//	curl -H 'Content-Type: application/json' -d '{"space":"kv/app/users","key":"NDI="}' \
//	  http://127.0.0.1:8080/mainstem.v1.LogService/Get
//	curl 'http://127.0.0.1:8080/mainstem.v1.LogService/Head?connect=v1&encoding=json&message=%7B%7D'
//
// With a token, add -H "Authorization: Bearer $TOKEN". Calls with a stream of answers
// frame each message, in every protocol, and need a client of that protocol.
//
// # Guarantees
//
// Durability: the answer to Commit is sent when the log's Commit has returned. Order: a
// stream has the records of the log's sequence in its order. Errors carry all of the log's
// [mainstem.Error], its outcome included. Messages of a stream hold several records, but a
// record for which a follower waits is sent at once. The first message to a follower says
// that it is being served.
//
// When a client disconnects, its calls end. For a slow client the sequence that it reads
// stops: the server holds at most two messages for the client, and ends the call when the
// client has read nothing for [Options.StallTimeout]. A call that panics gets an error; other
// calls are not affected.
//
// A snapshot is held for a client until it is closed or has not been used for
// [Options.SnapshotLease].
//
// # How it works
//
// A request is counted and limited before it is decoded (handler.go, codec.go, memory.go),
// decoded by package message, and answered by a method of service. A stream has two
// goroutines: one reads the log's sequence, the other sends (outbox.go, with the reasons).
//
// A session has one goroutine that reads, and serves quick calls itself; session.go has the
// reasons, and says how another goroutine becomes the reader.
//
//	handler.go, server.go, options.go   NewHandler, limits, authorization, ConfigureServer
//	write.go, read.go, admin.go         the calls: writes and spaces, reads, backups and checks
//	outbox.go, exchange.go              sending streams; one HTTP exchange and its deadlines
//	snapshot.go, source.go              snapshots held for clients; a log or a snapshot to read from
//	codec.go, memory.go                 the encodings, and the memory of requests
//	session.go, session_request.go      sessions and their readers; requests until they are served
//	session_call.go, session_method.go  one call and its answers; the methods
//	outcomes.go                         outcomes of commits whose answers may be lost
//
// # Concurrency and ownership
//
// A Handler may be used by many goroutines. Close it before the log, which belongs to the
// caller.
//
// # Limits
//
// [Options] names them: bytes and parts of a request, bytes of all requests,
// streams, snapshots, and times. A request beyond them, or malformed, is refused
// before the log sees it and before it takes memory. The handler neither listens nor
// speaks TLS: bind the server to loopback or give it both TLS and a token.
//
// # Generated code
//
// The packages below mainstem/v1 are generated from the protocol file by a program in
// this module with tools pinned in go.mod; a test compares.
//
// # Testing
//
// Package remotelog runs the conformance suite through this package over sessions and every
// protocol. Here are tests with raw and malformed requests and of every limit, and
// fuzz targets of the codecs; package message has those of the decoders.
package rpc

//go:generate go run ./internal/gen

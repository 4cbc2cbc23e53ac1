// Package rpc serves a log over HTTP with Connect RPC: the whole contract of package
// mainstem, for Go programs through package remotelog and for everything else
// through JSON, gRPC or gRPC-Web. The service is described in
// mainstem/v1/log.proto.
//
// # Words
//
// A [Handler] serves one log; [NewHandler] makes it and [Options] bounds what
// clients may ask of it. [ConfigureServer] sets up an [http.Server] for it.
//
//	path, handler := rpc.NewHandler(log, nil)
//	mux := http.NewServeMux()
//	mux.Handle(path, handler)
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
// frame each message, in every protocol, and want a client of that protocol.
//
// # Guarantees
//
// What the log behind it guarantees, a client gets: the answer to Commit is sent when
// the log's Commit has returned, a stream has the records of the log's sequence in
// its order, and an error carries all of the log's [mainstem.Error], its outcome
// included. Records of a stream travel several in a message, but one that a follower
// waits for is sent at once. A follower is told first that it is being served.
//
// A client that goes away ends its calls. A client that is slow stops the sequence it
// reads from; the server holds two messages for it and not more, and cuts it when it
// has taken nothing for [Options.StallTimeout]. A call that panics gets an error; the
// others go on.
//
// A snapshot is held for a client until it is closed or was not used for
// [Options.SnapshotLease].
//
// # Concurrency and ownership
//
// A Handler may be used by many goroutines. Close it before the log, which stays its
// owner's.
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
// Package remotelog runs the conformance suite through this package over every
// protocol. Here are tests with raw and malformed requests and of every limit, and
// fuzz targets of the codecs; package message has those of the decoders.
package rpc

//go:generate go run ./internal/gen

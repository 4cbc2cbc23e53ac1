// Package server runs a Mainstem server: it opens an engine, serves the log over HTTP, runs
// components, and stops all of it in the opposite order.
//
// # Words
//
// A [Server] is one running server. Its [Config] is everything that can be set;
// [Setting]s are the same fields as people write them, in a YAML file, in
// environment variables and as flags. [OpenLog] turns a target (a directory,
// memory:, or the URL of a server) into a log, for servers and clients alike.
//
//	c := server.DefaultConfig()
//	c.Log = "data"
//	s, err := server.Open(ctx, c)
//	...
//	err = s.Start(ctx)
//	...
//	err = s.Stop(ctx)
//
// # Components
//
// What a server does besides is done by components, which know the protocols that this package
// does not. Each is a package of its own, so that a program links what it names:
// wire/kafka/kafkaserver, alert/alertserver and actor/cluster/clusterserver. A [Component]
// starts and stops; a [Configured] one has settings, which are among those of the server; a
// [Listening] one has addresses; /readyz asks a [Required] one; an [Intake] takes in what others
// send. A server gives its components a [Host].
//
// # What is served
//
// One HTTP listener answers the log's contract over RPC (see wire/rpc), GET /healthz (the process
// lives), GET /readyz (the log takes commits and the components work), GET /metrics (Prometheus,
// from a registry of the server's own) and what components add. Health needs no token. The
// listener is no component: health and metrics are those of the server itself, and RPC is not a
// protocol of others but the contract of the log, by which every command reaches a server.
//
// # Guarantees
//
// A server beyond loopback has TLS and a token, and every listener of a component TLS and
// authentication of its own, or was told to be insecure. Start returns when clients can connect.
// Stop ends followers with Unavailable, lets other requests finish until a deadline, and closes
// the log, so what was acknowledged stays. A setting that nobody knows is an error that names the
// nearest one; a mistake in a file that a setting names is a [*FileError].
//
// # Concurrency and ownership
//
// The methods of a server may be called from many goroutines. The server owns its log and its
// components; the caller of OpenLog owns the log that it returns.
//
// # Testing
//
// Listen on 127.0.0.1:0 and read [Server.URL]; the target memory: needs no files.
package server

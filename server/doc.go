// Package server runs a Mainstem server: it opens an engine, attaches the views
// that work in the background and the wires that serve clients, and stops all of
// it in the opposite order.
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
// A [Coordinator] is a program of its own: it has no log, and asks object servers of
// alert tables, wherever they are (see alert/coordinator).
//
// # What is served
//
// Kafka clients are served on a listener of their own, if [Config.Kafka] names an
// address (see wire/kafka). One HTTP listener answers the log's contract over RPC (see wire/rpc), GET
// /healthz (the process lives), GET /readyz (the log takes commits) and GET
// /metrics (Prometheus, from a registry of the server's own). Health needs no token.
//
// With [Config.Omnibus] the server keeps alert tables and serves them on a listener of
// their own (see alert/omnibus), to users of a file if [Config.OmnibusUsers] names one:
// [AlertUsers] changes such files. [Config.AlertSyslog] and [Config.AlertWebhook] make alerts
// of what others send (see alert/ingest); those listeners stop first, so that readers see
// the last that came in. /readyz then asks the tables too.
//
// # Guarantees
//
// A server beyond loopback has TLS and a token, for Kafka clients TLS and SASL, for alerts TLS and
// users (for those who raise them a token or certificates will do), or was told to be insecure. Start
// returns when clients can connect. Stop ends followers with Unavailable, lets
// other requests finish until a deadline, and closes the log, so what was
// acknowledged stays. A setting that nobody knows is an error that names the
// nearest one; a mistake in a file of users or mappings is a [*FileError] with its line.
//
// # Concurrency and ownership
//
// The methods of a server may be called from many goroutines. The server owns its
// log; callers of OpenLog own theirs.
//
// # Testing
//
// Listen on 127.0.0.1:0 and read [Server.URL]; the target memory: needs no files.
package server

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
// Other protocols are served by components. Each is a package of its own, so that a program
// links only those that it names: wire/kafka/kafkaserver, wire/http/viewserver,
// alert/alertserver and actor/cluster/clusterserver. A [Component] has a name and can be
// started and stopped. It may implement more: a [Configured] one adds settings to those of the
// server, a [Listening] one has addresses, and /readyz asks a [Required] one. An [Intake]
// writes what others send to the log; it starts after the HTTP listener and stops before it. A
// server gives each component a [Host].
//
// # What is served
//
// One HTTP listener answers the log's contract over RPC (see wire/rpc), GET /healthz (the process
// lives), GET /readyz (the log takes commits and the components work), GET /metrics (Prometheus,
// from a registry of the server's own) and what components add. Health needs no token. The
// listener is not a component: health and metrics belong to the server, and every command
// reaches the log through RPC.
//
// # Guarantees
//
// A server that listens on more than loopback must have TLS and a token, and so must every
// listener of a component have TLS and authentication, unless the configuration says insecure.
//
// Order: components start in the order given and stop in the opposite one. Start returns when
// clients can connect. Stop ends followers with Unavailable, lets other requests finish until a
// deadline, and closes the log last, so every acknowledged commit is kept with its durability.
//
// An unknown setting is an error that names the nearest known one; a mistake in a file that a
// setting names is a [*FileError].
//
// # Files
//
//	server.go, component.go, background.go   starting and stopping; components; the log's upkeep
//	config.go, settings.go, sources.go       settings, and reading them from files and environment
//	openlog.go, memory.go                    opening the target; how much memory there is
//	http.go, listener.go, origin.go          routes, listeners with TLS and tokens, browsers
//	health.go, metrics.go, measure.go        /healthz and /readyz, /metrics, timing the log
//	session.go                               metrics of sessions; a token file that changes
//	contents.go, version.go                  metrics of what the log holds; the build
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

// Package server runs a Mainstem server: it opens an engine, serves the log over HTTP, runs
// components, and stops all of them in the reverse order.
//
// # Words
//
// A [Server] is one running server. Its [Config] has everything that can be set. A [Setting] is a
// field of the Config by the name that people use in a YAML file, in environment variables and as a
// flag. [OpenLog] opens the log that a target names: a directory, memory:, or the URL of a server.
// A [Component] is a part of the server with a protocol of its own.
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
// Each component is a package of its own, so that a program links only those that it uses:
// wire/kafka/kafkaserver, wire/http/viewserver, alert/alertserver and actor/cluster/clusterserver.
// A server gives each component a [Host]. A component may implement more than Component: a
// [Configured] one adds settings to those of the server, a [Listening] one has addresses, and
// /readyz asks a [Required] one. An [Intake] writes data from others to the log; it starts after
// the HTTP listener and stops before it.
//
// # What is served
//
// One HTTP listener serves the contract of the log over RPC (see wire/rpc), GET /healthz (the
// process runs), GET /readyz (the log takes commits and the components work), GET /metrics
// (Prometheus, from a registry of the server), and the handlers of components. Only /healthz and
// /readyz need no token. The listener is not a component: health and metrics belong to the server,
// and every command reaches the log through RPC.
//
// # Guarantees
//
// Order: components start in the given order and stop in the reverse one. [Server.Start] returns
// when clients can connect. [Server.Stop] ends followers with Unavailable, lets other requests
// finish until a deadline, and closes the log last, so every acknowledged commit keeps its
// durability.
//
// Protection: a server that listens beyond loopback must have TLS and a token, and each such
// listener of a component TLS and authentication, unless the configuration says insecure.
//
// Errors: all mistakes in a configuration are one error of kind Invalid. An unknown setting is an
// error that names the nearest known one. A mistake in a file that a setting names is a
// [*FileError]. A component that fails while the server runs is reported by [Server.Failed].
//
// # Concurrency and ownership
//
// The methods of a Server may be called from many goroutines. The server owns its log and its
// components. The caller of OpenLog owns the log that it returns.
//
// # Limits
//
// The sizes and numbers of requests, streams and snapshots are settings, see [Config]. All clients
// share one budget of memory (docs/memory.md): a request waits for bytes of it, and fails with
// Unavailable if they do not become free.
//
// # Files
//
//	server.go, component.go, background.go   starting and stopping; components; upkeep of topics
//	config.go, settings.go, sources.go       settings, and reading them from files and environment
//	openlog.go, memory.go                    opening the target; how much memory there is
//	http.go, listener.go, origin.go          routes, listeners with TLS and tokens, browsers
//	health.go, metrics.go, measure.go        /healthz and /readyz, /metrics, timing the log
//	session.go                               metrics of sessions; a token file that changes
//	contents.go, version.go                  metrics of the contents of the log; the build
//
// # Testing
//
// Listen on 127.0.0.1:0 and read [Server.URL]; the target memory: needs no files.
package server

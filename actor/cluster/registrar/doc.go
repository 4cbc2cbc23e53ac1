// Package registrar finds the addresses of the nodes of a cluster: in a list, in DNS, or on a log
// that all of them reach.
//
// # Words
//
// A [Resolver] returns the address "host:port" at which the node of a name listens; it is an option
// of package cluster. [Static] is a list. [DNS] looks up SRV, A and AAAA records. [Log] needs no
// server of its own: each node writes its address into a bucket of a log and renews its
// [lease.Session] there, so a node that has crashed is removed after a while. [First] tries several
// resolvers in turn.
//
//	log, err := remotelog.Open("https://log.example.com:8443", nil) // or any other engine
//	r := registrar.New(log, nil)
//	c, err := cluster.Join(node, &cluster.Options{Listen: "10.0.0.1:4370", Resolver: r, ...})
//	...
//	k := r.Keeper() // for leases: names, singletons, shards
//
// # Guarantees
//
// A Log resolves a name to the address of the node that has the name now, as far as this node has
// seen. A node that has not renewed its session for its TTL is NotFound. At most one node has a
// name at a time: see package lease. The answers of DNS and lists may be wrong: the handshake of a
// connection checks the name of the node.
//
// While the log cannot be reached, a Log resolves names as it saw them last.
//
// # Errors
//
// NotFound for a name without an address, Unavailable for servers that do not answer and for a Log
// without an announced node, Canceled, and the errors of [lease.Open] from [Log.Announce].
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines. The log belongs to the caller.
//
// # Testing
//
// The tests of DNS ask a server of their own over UDP on loopback.
//
//snippet:var node *actor.Node
package registrar

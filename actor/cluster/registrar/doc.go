// Package registrar finds the nodes of a cluster: in a list, in DNS, or on a log that
// all of them reach.
//
// # Words
//
// A resolver turns the name of a node into the address "host:port" at which it
// listens; it is what package cluster takes. [Static] is a list. [DNS] asks for SRV, A
// and AAAA records. [Log] is a registrar without a server of its own: each node
// writes its address into a bucket and renews its [lease.Session] there, so any node that
// has crashed is forgotten. [First] asks one after another.
//
//	log, err := remotelog.Open("https://log.example.com:8443", nil) // or any other engine
//	r := registrar.New(log, nil)
//	c, err := cluster.Join(node, &cluster.Options{Listen: "10.0.0.1:4370", Resolver: r, ...})
//	...
//	k := r.Keeper() // for leases: names, singletons, shards
//
// # Guarantees
//
// A Log resolves a name to the address of the node that has the name now, as far as this
// node has seen; a node that is not heard of for its TTL is NotFound. At most one
// node has a name at a time: see package lease. DNS and lists promise nothing: the
// handshake of a connection finds out who is there.
//
// Without the log, a Log still resolves what it saw last.
//
// # Errors
//
// NotFound for a name that nobody knows, Unavailable for servers that do not answer,
// Canceled, and of [Log.Announce] what [lease.Open] fails with.
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

// Package embedded runs a NATS server with JetStream inside the process and opens a
// log on it: the engine natslog without a server to install.
//
//	log, err := embedded.Open("data", nil)
//	if err != nil { ... }
//	defer log.Close()
//
// A [Log] is a natslog.Log and the server that stores it. Other processes may use the
// same log, and the nats tool may look at it, if [Options.Listen] gives the server an
// address.
//
// # Guarantees
//
// Those of package natslog. The server syncs its store before it acknowledges a
// commit (law 3) unless [Options.Durability] asks for less.
//
// # Concurrency and ownership
//
// One process opens a directory at a time; a second one gets Unavailable. Closing the
// log stops the server, and with it the clients that came over the network.
//
// # Limits
//
// [Options.MaxPayload] bounds one record. The server is alone: for more than one
// machine run NATS servers of their own and open them with package natslog.
//
// # Testing
//
// The tests run the conformance suite in a directory, with restarts.
package embedded

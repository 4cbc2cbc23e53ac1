// Package actorprom counts and times what the actors of a node do, for Prometheus.
//
// # Nouns
//
// [Metrics] are an observer of nodes (see actor.NodeOptions) and a collector that a
// registry takes. One of them can observe several nodes.
//
// # What there is
//
//	mainstem_actor_started_total{type}            incarnations that have begun
//	mainstem_actor_ended_total{type,reason}       incarnations that have ended
//	mainstem_actor_waited_seconds{type}           how long messages were in a mailbox
//	mainstem_actor_handled_seconds{type}          how long Receive ran
//	mainstem_actor_dead_letters_total{message,reason}
//	mainstem_actor_actors{node,type,state}        with Watch: actors now
//	mainstem_actor_mailbox_messages{node,type}    with Watch: messages that wait now
//
// # Guarantees
//
// There are as many time series as the program has types of actors and messages, times
// the few reasons and states: no label says which actor it was, or what an error said.
//
// # Concurrency and ownership
//
// Metrics are safe for concurrent use by any number of nodes and registries.
//
// # Limits
//
// Observing costs a look at the clock and two histograms for each message. What
// [Metrics.Watch] adds costs a walk over all actors of the node at each scrape.
//
// # Testing
//
// The tests gather from a registry what real nodes have done, in virtual time.
package actorprom

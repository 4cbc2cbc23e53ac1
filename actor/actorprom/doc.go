// Package actorprom has metrics of the actors of nodes, for Prometheus.
//
// # Nouns
//
// [Metrics] are an observer of nodes (see actor.NodeOptions) and a collector for a registry. One
// value can observe several nodes. An Example shows both.
//
// # Metrics
//
//	mainstem_actor_started_total{type}            incarnations that have begun
//	mainstem_actor_ended_total{type,reason}       incarnations that have ended
//	mainstem_actor_waited_seconds{type}           histogram: from Send to Receive
//	mainstem_actor_handled_seconds{type}          histogram: in Receive
//	mainstem_actor_dead_letters_total{message,reason}
//	mainstem_actor_actors{node,type,state}        with Watch: actors at the scrape
//	mainstem_actor_mailbox_messages{node,type}    with Watch: messages that wait at the scrape
//
// type is the type of the actor's value, message the type of the message. reason is panic, stopped,
// mailbox_full, unreachable, an exit reason of package actor such as shutdown, or error. An
// incarnation whose Start method failed is counted as ended and not as started.
//
// # Guarantees
//
// The number of time series is that of the types of actors and messages, times the few reasons and
// states. No label identifies an actor or has the text of an error.
//
// # Concurrency and ownership
//
// Metrics are safe for concurrent use by any number of nodes and registries.
//
// # Limits
//
// Observing costs three readings of the clock and two observations of histograms for each message.
// [Metrics.Watch] adds a walk over all actors of the node at each scrape.
//
// # Testing
//
// The tests gather the metrics of real nodes from a registry, in virtual time.
package actorprom

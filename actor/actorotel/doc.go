// Package actorotel carries the traces of OpenTelemetry along with messages between actors.
//
// # Nouns
//
// A [Tracer] is the tracer of a node (see actor.NodeOptions). A message carries the span context
// and the baggage of the context that was passed to Send. The handling of the message is a span, a
// child of the span of the sender. While an actor handles a message, its Context has that span:
// messages that it sends with this Context, and other instrumented calls, belong to the same trace.
// An Example shows one.
//
// # Spans
//
// A span has the name "receive" and the type of the actor, the kind consumer, and the attributes
// actor.type and actor.address. If Receive returns an error that is a crash (see [actor.IsCrash]),
// or panics, the span records it and has the status error.
//
// # Guarantees
//
// A message that is sent without a trace has no span, unless [Options.Roots] is set. There are as
// many names of spans as types of actors.
//
// # Concurrency and ownership
//
// A Tracer is safe for concurrent use, by several nodes too. It does not own the provider: the
// caller flushes it and shuts it down.
//
// # Limits
//
// A span measures the handling of a message, not its time in the mailbox. A message of a timer has
// no trace. To other nodes headers of up to 4,096 bytes are sent; if they are longer, the baggage
// is left out.
//
// # Testing
//
// The tests read the spans of real nodes from the in-memory exporter of the SDK.
package actorotel

// Package actorotel lets the traces of OpenTelemetry ride on messages between actors.
//
// # Nouns
//
// A [Tracer] is the tracer of a node (see actor.NodeOptions). The trace and baggage of the
// context that is passed to Send go with the message; handling it is a span, a child of the
// sender's. While an actor handles a message, its Context carries that span: what it
// sends or asks with it, and any other instrumented call, belongs to the trace.
//
// # What there is
//
// Spans are called "receive" and the type of the actor, of kind consumer, with the
// attributes actor.type and actor.address. If the message ends the actor, for whatever
// [actor.IsCrash] calls a failure, the span has the error and its status.
//
// # Guarantees
//
// A message that is sent without a trace has no span, unless [Options.Roots] asks for
// it. Names of spans are as many as there are types of actors.
//
// # Concurrency and ownership
//
// A Tracer is safe for concurrent use, by several nodes too. The provider stays the
// caller's, to flush and to shut down.
//
// # Limits
//
// Spans measure the handling of messages, not their waiting. A message from a timer has no
// trace. On the way to other nodes headers take up to 4,096 bytes; a longer baggage stays behind.
//
// # Testing
//
// The tests look at the spans that real nodes have made, in the SDK's exporter in memory.
package actorotel

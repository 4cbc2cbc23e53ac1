// Package actortest tests actors one at a time, by what they send and how they end.
//
// # Nouns
//
// A [Probe] is an actor of the test: it stands where the actor under test expects
// another, keeps what it gets, and the test asks it for that, message by message.
// [Run] is a test in virtual time with a node of its own: in it, an hour passes as soon
// as nobody has anything else to do ([Advance] does nothing else), so that the same test takes
// the same course each time.
//
//	actortest.Run(t, func(t *testing.T, node *actor.Node) {
//		printer := actortest.NewProbe[string](t, node)
//		clock := actortest.Spawn(t, node, &clock{to: printer.Ref()}, nil)
//		actortest.Send(t, clock, start{})
//		printer.Expect("tick", "tock")
//		actortest.ExpectEnd(t, clock, actor.Normal)
//	})
//
// # Guarantees
//
// A Probe returns messages in the order in which it got them, each once. What an
// assertion does not find within [Patience], or [VirtualPatience] in virtual time, fails
// the test, with what came instead.
// Nodes that a test opens here are stopped at its end, and an actor that does not stop
// fails it.
//
// # Concurrency and ownership
//
// Assertions are for the goroutine of the test, because they may end it. References of
// probes can be used by any goroutine. Messages are the test's to keep.
//
// # Limits
//
// In virtual time, nothing outside the test can be waited for: no network, no process. There,
// open a node with [Node] and do without [Run]. Timers that fire at the same moment
// of virtual time have no order among them.
// Messages are compared with reflect.DeepEqual: those with a function or a reply in them
// are better looked at with [Inbox.Next] and [Inbox.Find].
//
// # Testing
//
// The package's tests run assertions that must fail against a testing.TB that notes it.
//
//snippet:type start struct{}
//snippet:type clock struct{ to actor.Ref[string] }
//snippet:func (*clock) Receive(*actor.Context[start], start) error { return nil }
package actortest

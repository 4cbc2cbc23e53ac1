// Package actortest has helpers for tests of single actors: of the messages that they send, and of
// how they end.
//
// # Nouns
//
// A [Probe] is an actor of the test. It takes the place of another actor that the one under test
// sends to, and keeps its messages in an [Inbox], from which the test takes them. [Run] runs a test
// in virtual time with a node of its own: time passes only while all goroutines of the test wait,
// and then at once, so that a test takes the same course each time. [Advance] lets time pass.
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
// An Inbox returns messages in the order in which they came, each once. An assertion waits for
// [Patience], or [VirtualPatience] in virtual time; then it fails the test and shows what came
// instead. Nodes of [Node] and Run are stopped at the end of the test, and an actor that does not
// stop fails it.
//
// # Concurrency and ownership
//
// Assertions are for the goroutine of the test, because they may end it (t.Fatalf). References of
// probes can be used by any goroutine. Messages that an Inbox has returned belong to the test.
//
// # Limits
//
// A test in virtual time cannot wait for anything outside of it, such as a network or a process.
// Such a test opens a node with [Node] and does not use Run. Timers that fire at the same moment of
// virtual time have no order among them. Messages are compared with reflect.DeepEqual: for those
// with a function or a reply in them use [Inbox.Next] or [Inbox.Find].
//
// # Testing
//
// The package's tests run assertions that must fail with a testing.TB that records the failures.
//
//snippet:type start struct{}
//snippet:type clock struct{ to actor.Ref[string] }
//snippet:func (*clock) Receive(*actor.Context[start], start) error { return nil }
package actortest

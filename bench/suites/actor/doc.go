// Package actor is the suite of workloads for actors: messages between two of them
// and between pairs, on one node and over the network, questions and answers, the
// memory of an idle process, and one message to very many.
//
// # Nouns
//
// A [Factory] is a contender; it opens what it can take part in: a [Pinger], an
// [Asker], a [Population], a [Publisher]. A [Sink] is where messages end: the suite
// gives one for each pair, and the contender calls it in the receiving process. An
// [Audience] is the same for the subscribers of a publisher.
//
//	func BenchmarkActors(b *testing.B) {
//		actor.Run(b, actor.Factory{Name: "mine", Ping: openPing})
//	}
//
// # Workloads
//
// Ping: the sender sends small integers in a burst, three million between one and
// one, one million in each of as many pairs as there are cores. The time ends when
// the last has been received. Memory: a million processes are started and left
// alone (10,000 outside of scale tests). Publish: one value to 3 nodes of 10
// subscribers, to 1,000 on one node, and in scale tests to 10 nodes of 100,000.
//
// # Guarantees
//
// Every sink counts what comes and looks at its order, which costs all contenders
// the same. A message that is missing, or comes twice or out of order, fails the
// row; one that never comes fails it when [Patience] ends. Nodes of the network
// cases are in one process and meet over the loopback. After a population was measured,
// each of its processes must answer. Subscribers are counted one by one.
//
// # Concurrency and ownership
//
// A sink belongs to the receiving process of its pair; an audience may be called
// from many goroutines.
//
// # Testing
//
// The tests have contenders that lose, repeat, reorder and invent, and expect that
// each is caught.
//
//snippet:var openPing = actor.Factory{}.Ping
package actor

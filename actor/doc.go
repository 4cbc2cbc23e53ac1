// Package actor is a runtime for actors: values with state of their own and a mailbox,
// each of which handles one message at a time. One process may hold a million of them.
//
// # Nouns
//
// A [Node] is a set of actors that live and stop together. An [Actor] is a value
// with a Receive method for messages of one type M. [Spawn] starts one and returns a
// [Ref], typed by that M, with which others [Ref.Send] messages to it or [Ask] it
// questions. The actor itself gets a [Context]. Actors that an actor spawns are its
// children; a [Supervisor] is an actor that restarts its children. An incarnation is the
// life of an actor between two restarts. A dead letter is a message that no actor will
// handle.
//
//	type counter struct{ n int }
//
//	func (a *counter) Receive(_ *actor.Context[message], m message) error {
//		switch m := m.(type) {
//		case add:
//			a.n += m.n
//		case get:
//			return m.reply.Send(a.n)
//		}
//		return nil
//	}
//
//	node, err := actor.Open("shop", nil)
//	ref, err := actor.Spawn(node, &counter{}, nil)
//	err = ref.Send(ctx, add{3})
//	n, err := actor.Ask(ctx, ref, func(r actor.Reply[int]) message { return get{r} })
//
// An [Event] reaches any number of actors that subscribed to it, a [Group] all its
// members, a [Router] or a [Pool] one of several workers, a [Keyed] the actor of a key,
// which it starts at the first message. [Forward] passes a question on. An [Address]
// names an actor on any node; a [Transport] connects nodes.
//
// # One thing at a time
//
// The runtime calls Receive for messages, and the functions that the actor gave to
// [AskThen], [Context.After], [Context.Monitor] and [Context.TrapExit], one after
// another and never two at once. An error or panic of such a function ends the actor, as
// one of Receive does. Functions of an incarnation that has ended are not called.
//
// # Guarantees
//
// Order: messages of one priority from one sender to one receiver are handled in
// the order in which they were sent. Exits of linked actors and requests to end come
// before all messages, [Urgent] messages before [System] and those before [User] messages.
//
// Delivery: Send returns nil when the message is in the mailbox. From there it is
// handled, or becomes a dead letter when the actor ends without a restart or the
// mailbox's [Overflow] policy drops it: nothing is lost silently. A question that becomes
// a dead letter fails at once with [ErrNoReply].
//
// Durability: none. Mailboxes and state are in memory and end with the process.
//
// Failure: an error or panic in an actor ends that actor, with a reason. Its monitors are
// called; actors linked to it end too, unless they trap exits; no other actor notices.
// Its supervisor may restart it: the Ref and the mailbox stay. The message that was being
// handled is dropped, so that it cannot fail again and again.
//
// Ends: an actor's children end before it does. When [Wait] returns, or [Node.Stop]
// with nil, the Stop methods have returned.
//
// # How it works
//
// An actor is a process: a core, which does not depend on the message type, and a mailbox.
// The first message into an empty mailbox starts a goroutine, which handles messages until
// there are none and ends. So at most one goroutine has an actor at any time; state.go has
// the phases of an actor, the table of transitions between them, and the invariants.
//
//	actor.go, ref.go, context.go, options.go   what users of the package see
//	core.go, process.go, state.go              an actor, its loop, the phases of its life
//	mailbox.go, bounded.go                     messages that wait; mailboxes with a limit
//	spawn.go, end.go, idle.go                  starting, ending and passivating an actor
//	child.go, supervisor.go, supervise.go      children, and the supervisor's decisions
//	ask.go, timer.go, link.go, event.go        questions, timers, links and monitors, events
//	group.go, router.go, pool.go, keyed.go     one of several actors, or all of them
//	spread.go                                  waking very many actors with one value
//	node.go, table.go, alias.go, address.go    a node, its actors by number and name
//	remote.go, inbound.go, encode.go           sending to other nodes, and receiving
//	observe.go, inspect.go, deadletter.go      observers, tracing, inspection, dead letters
//
// # Concurrency and ownership
//
// Nodes, references and replies may be used by any goroutine. A Context may be used
// only while the runtime calls the actor, except as a [context.Context]. Messages are not
// copied: after Send a message belongs to the receiver. An actor has no goroutine while
// its mailbox is empty, and one of its own while it handles messages, so it may block.
//
// # Limits
//
// [MaxName], [MaxStash]; mailboxes have no limit unless [Options.Mailbox] sets one. An
// actor that does not return from Receive cannot be ended: its parent stops waiting after
// [Options.Grace] and logs that. Priorities matter only between messages: a message that
// is being handled is not interrupted.
//
// # Testing
//
// Actors work in testing/synctest bubbles, with their timers in virtual time. Package
// actortest has probes and assertions. The tests of this package
// compare supervisors and mailboxes with models under random crashes.
//
//snippet:type message any
//snippet:type add struct{ n int }
//snippet:type get struct{ reply actor.Reply[int] }
package actor

// Package actor runs a million small stateful things in one process: each has
// state of its own, a mailbox, and one message at a time.
//
// # Nouns
//
// A [Node] is a set of actors that live and stop together. An [Actor] is a value
// with a Receive method for messages of one type M. [Spawn] starts one and returns a
// [Ref], typed by that M, which is all that others have of it: they [Ref.Send]
// to it or [Ask] it. A [Context] is what the actor has of itself. Actors that
// an actor spawns are its children; a [Supervisor] is an actor that restarts its own.
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
// which it starts when there is something for it. [Forward] passes a question on. An [Address] names an actor on any node; a
// [Transport] connects nodes.
//
// # Everything in turn
//
// What happens to an actor happens in its turn, one thing after another: messages,
// and functions that it left with the runtime: [AskThen], [Context.After],
// [Context.Monitor], [Context.TrapExit]. Such a function that fails ends the actor,
// as Receive does. Functions of an incarnation that has ended are not called.
//
// # Guarantees
//
// Order: messages of one priority from one sender to one receiver are handled in
// the order in which they were sent. Before each message the actor looks for exits and
// orders of parents first, then [Urgent], [System] and [User] messages.
//
// Delivery: Send returns nil when the message is in the mailbox. From there it is
// handled, or becomes a dead letter when the actor ends for good or the mailbox's
// [Overflow] policy says so: nothing is lost silently. A question that becomes a
// dead letter fails at once with [ErrNoReply].
//
// Failure: an error or panic in an actor ends that actor, with a reason, and
// nothing else. Those who monitor it are told; those linked to it end too, unless they
// trap exits. Its supervisor may restart it: the Ref and the mailbox stay, the
// message that was being handled is gone, so that it cannot fail again and again.
//
// Ends: an actor's children end before it does. When [Wait] returns, or [Node.Stop]
// with nil, the Stop methods have returned.
//
// # Concurrency and ownership
//
// Nodes, references and replies may be used by any goroutine; a Context in the
// actor's turn only, except as a [context.Context]. Messages are not copied: what is
// sent belongs to the receiver. An actor has no goroutine while it has no
// messages; while it has, one of its own, so it may block.
//
// # Limits
//
// [MaxName], [MaxStash]; mailboxes have no limit unless [Options.Mailbox] sets one. An
// actor that does not return from Receive cannot be ended: who waits for it gives
// up after [Options.Grace] and says so. Priorities are looked at between messages only.
//
// # Testing
//
// Actors work in testing/synctest bubbles, with their timers in virtual time. Package
// actortest has probes and what else tests of actors need. The tests of this package
// compare supervisors and mailboxes with models under random crashes.
//
//snippet:type message any
//snippet:type add struct{ n int }
//snippet:type get struct{ reply actor.Reply[int] }
package actor

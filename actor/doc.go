// Package actor is a runtime for actors in the manner of Erlang/OTP: each has its own state and a
// mailbox, and handles one message at a time. One process may hold a million of them.
//
// # Nouns
//
// A [Node] is a set of actors that live and stop together. An [Actor] is a value with a Receive
// method for messages of one type M. [Spawn] starts one and returns a [Ref] of that M: others
// [Ref.Send] messages to it (cast) or [Ask] it questions (call). The functions of the actor get a
// [Context]. Actors that an actor spawns are its children; a [Supervisor] is an actor that restarts
// its children. An incarnation is the life of an actor between two restarts. The reason for which
// it ends is its exit reason, an error. A dead letter is a message that no actor will handle.
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
// An [Event] reaches all actors that have subscribed to it, a [Group] all its members, a [Router]
// or a [Pool] one of several actors, a [Keyed] the actor of a key, which the first message starts.
// [Forward] passes a question on. An [Address] identifies an actor of any node; a [Transport]
// connects nodes.
//
// # The turn of an actor
//
// The runtime calls Receive for messages, and the functions that the actor gave to [AskThen],
// [Context.After], [Context.Monitor] and [Context.TrapExit], one after another and never two at
// once. Such a call is a turn of the actor. An error or panic of one of these functions ends the
// incarnation, as one of Receive does. Functions of an incarnation that has ended are not called.
//
// # Guarantees
//
// Order: messages of one priority from one sender to one receiver are handled in the order in which
// they were sent. Exits of linked actors and requests to end are handled before all messages,
// [Urgent] messages before [System] messages and those before [User] messages.
//
// Delivery: when Send returns nil, the message is in the mailbox, or, for an actor of another node,
// has been accepted by the Transport. It is handled at most once. It becomes a dead letter if the
// actor ends without a restart, the [Overflow] policy of the mailbox drops it, or the other node
// cannot be reached. The question of a dead letter fails at once with [ErrNoReply].
//
// Durability: none. Mailboxes and state are in memory and end with the process.
//
// Failure: an error or panic in an actor ends its incarnation, with an exit reason. Its monitors
// are called, and actors that are linked to it end too, unless they trap exits. No other actor is
// affected. If its supervisor restarts it, its references and its mailbox stay. The message that
// was being handled is gone and is no dead letter; so it cannot make the actor fail again and
// again. Its question fails with ErrNoReply.
//
// Ends: the children of an actor end before it does, except those that were left behind because
// they did not end within their Grace. When [Wait] returns the exit reason, the Stop method of the
// actor has returned.
//
// # Where this differs from OTP
//
//   - Messages and references are typed, and messages are not copied.
//   - A restart keeps the reference, the names and the mailbox of an actor ([Options.DropMailbox]
//     drops the mailbox). Links and monitors end with the incarnation, as in OTP.
//   - Receive handles messages in their order: there is no selective receive, but [Context.Stash].
//   - An actor cannot be interrupted during a message, not even by Kill.
//   - A parent and its children are not linked. Only a supervisor acts on the end of a child.
//   - Stop methods are called for all exit reasons but [Killed]; see [Stopper].
//   - A call that fails returns an error and does not end the caller. Ask has no default timeout.
//   - Mailboxes can have limits; see [Overflow].
//   - Restarts can be delayed ([Backoff]), and a child can have a limit of its own
//     ([ChildOptions]).
//
// # How it works
//
// An actor is a process: a core, which does not depend on the message type, and a mailbox. The
// first message into an empty mailbox starts a goroutine, which handles messages until there are
// none and ends. So at most one goroutine has an actor at any time. state.go has the phases of an
// actor, the table of transitions between them, and the invariants; process.go has the loop, end.go
// the steps of an end, supervise.go those of a restart.
//
//	actor.go, ref.go, context.go, options.go   the names that most programs use
//	core.go, process.go, state.go              an actor, its loop, the phases of its life
//	mailbox.go, bounded.go                     messages that wait; mailboxes with a limit
//	spawn.go, end.go, idle.go                  starting, ending and passivating an actor
//	child.go, supervisor.go, supervise.go      children, and the supervisor's decisions
//	ask.go, timer.go, link.go, event.go        questions, timers, links and monitors, events
//	group.go, router.go, pool.go, keyed.go     one of several actors, or all of them
//	receivers.go, spread.go                    sending one value to very many actors
//	node.go, table.go, alias.go, address.go    a node, its actors by number and name
//	remote.go, inbound.go, inbound_event.go    sending to other nodes, and receiving
//	encode.go, bind.go                         references in messages between nodes
//	observe.go, propagate.go                   observers and tracing
//	inspect.go, deadletter.go                  inspection, dead letters
//
// # Concurrency and ownership
//
// Nodes, references and replies may be used by any goroutine. A Context may be used only in the
// actor's turn, except as a [context.Context]. Messages are not copied: after Send a message
// belongs to the receiver. An actor has no goroutine while its mailbox is empty. It may block in
// its turn: that holds up no other actor, except for some milliseconds after an Event or a Group
// has woken very many actors at once.
//
// # Limits
//
// [MaxName], [MaxStash]; mailboxes have no limit unless [Options.Mailbox] sets one. An actor that
// does not return from Receive cannot be ended: its parent stops waiting after [Options.Grace] and
// logs that. runtime.Goexit in Receive, or another function of a turn, ends the actor with [Exited],
// and so it does in a Start or Stop method. In Start it also ends the caller of [Spawn], or the
// supervisor. Observers and functions of references must not call it: it would end the goroutine of
// the runtime or of the caller there.
//
// # Testing
//
// Actors work in the bubbles of testing/synctest, with their timers in virtual time. Package
// actortest has probes and assertions. The tests of this package compare supervisors and mailboxes
// with models under random crashes.
//
//snippet:type message any
//snippet:type add struct{ n int }
//snippet:type get struct{ reply actor.Reply[int] }
package actor

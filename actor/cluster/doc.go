// Package cluster connects nodes of actors on several machines: the same reference,
// the same Send and Ask, whatever node the actor is on.
//
// # Nouns
//
// [Join] makes a node a member of a [Cluster], the nodes that can reach and believe
// each other. [Ref] refers to an actor of another node by name; references, replies and
// addresses that come in messages can be used as they are. An [Event] or [Group]
// of this package spans nodes. [Spawn] and [Cluster.StartApp] start things on another node, which
// has allowed it. [NodeInfo] and [NodeEvent] say who is there.
//
//	c, err := cluster.Join(node, &cluster.Options{
//		Listen: "10.0.0.1:7600", TLS: certificates,
//		Peers: map[string]string{"shop2": "10.0.0.2:7600"},
//	})
//	err = c.Register("shop.order", Order{})      // on both nodes
//	orders, err := cluster.Ref[Order](c, "shop2", "orders")
//	err = orders.Send(ctx, Order{ID: 42})
//
// # Messages
//
// Any type that package codec/binary can encode can be sent once it has a name:
// [Cluster.Register]. Nodes send each other their types and how they are written. Send of a
// type that the other node has not registered or cannot read fails with [ErrUnregistered]. Types
// may grow while nodes of both versions run. The values of fields of interface types must be of
// registered types too. Methods that encode a message must not send any.
//
// # Guarantees
//
// Order: what one actor sends to another arrives in order: messages of one
// priority, however the other is addressed, questions, monitors, links, and its end after them. The
// same holds for all that is sent with contexts that come from no actor.
//
// Delivery: when Send returns nil, the message arrives exactly once, as long as both
// nodes live and are out of each other's reach for less than [Options.DownAfter] at a time. What
// was not acknowledged until then is a dead letter, though it may have arrived. [AtMostOnce]
// trades that for speed. A message that finds no actor, or one that refuses it, is a dead letter
// at the receiving node; a question that is dropped fails with [actor.ErrNoReply] on either.
//
// Ends: a monitor or link reports once: the end of the actor, with its reason, or that of
// its node, with [actor.NodeDown]. A question is dropped when the deadline of its context is over.
//
// Lives: a reference to an actor of a node that was restarted since is refused with
// [actor.ErrRestarted]; one by name refers to the actor that has it now.
//
// Errors: reasons and answers that are errors keep their text and what they wrap.
// errors.Is and errors.As find the errors of this module and of package context, and what was registered.
//
// Flow: a node that takes messages slower than they are sent slows its senders
// down: Send waits as long as its context allows.
//
// # Security
//
// Nodes prove themselves to each other before anything is read: see package link.
// Those that have are trusted to send messages to actors whose address they know and to end
// them, to subscribe, and to ask for members of groups; to start things they need permission by
// name. A node can answer only questions that were put to it. Malformed messages are
// refused, counted ([Cluster.Malformed]) and logged.
//
// # Concurrency and ownership
//
// All methods may be called by many goroutines. A message is encoded before Send
// returns: unlike one for an actor of the same node it is not shared with the receiver.
//
// # Limits
//
// [Options.MaxMessage]; 65,536 types; 64 requests of one node are served at a time.
// A mailbox with the policy Block takes 1,024 messages of other nodes beyond its limit; then one
// that stays full holds up what else comes on its connection.
//
// # Testing
//
// All semantics on real nodes over the loopback, plain and with TLS; a random program
// while connections are cut, compared with what must have arrived; a hostile peer; golden bytes and fuzzing of all frames.
//
//snippet:type Order struct{ ID int }
//snippet:var node *actor.Node
//snippet:var certificates *link.TLS
package cluster

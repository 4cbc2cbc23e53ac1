// Package cluster connects the nodes of actors of several machines: references, Send and Ask work
// the same, whatever node an actor is on.
//
// # Nouns
//
// [Join] makes a node a member of a [Cluster]: the nodes that can reach and authenticate each other.
// [Ref] refers to an actor of another node by name; references, replies and addresses that come in
// messages can be used as they are. An [Event] or [Group] of this package spans nodes. [Spawn] and
// [Cluster.StartApp] start actors and applications on another node, if it has enabled that.
// [NodeInfo], [NodeEvent] and [NodeState] describe other nodes. A life is the time of a node from its
// start to its end; the next node of that name has a higher start.
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
// [Cluster.Register]. Nodes send each other the names and schemas of their types. Send of a type
// that the other node has not registered or cannot read fails with [ErrUnregistered]. Types may grow
// while nodes of both versions run. The values of fields of interface types must be of registered
// types too. A method that encodes a message must not send messages.
//
// # Guarantees
//
// Order: the messages that one actor sends to another arrive in order, if they have the same
// priority, whether the receiver is addressed by name or by number. Questions, monitors, links, and
// the notice of the sender's end keep that order too. So do all messages that are sent with contexts
// of no actor.
//
// Delivery: when Send returns nil, the message arrives exactly once, as long as both nodes live and
// are out of each other's reach for less than [Options.DownAfter] at a time. Messages that were not
// acknowledged until then become dead letters, though they may have arrived. [AtMostOnce] is weaker
// and cheaper. A message that finds no actor, or is rejected by a mailbox, is a dead letter at the
// receiving node; a question that is dropped fails with [actor.ErrNoReply] on whichever node.
//
// Ends: a monitor or link reports once: the end of the actor, with its reason, or that of
// its node, with [actor.NodeDown]. A question is dropped when the deadline of its context is over.
//
// Lives: a reference to an actor of a node that was restarted since is refused with
// [actor.ErrRestarted]; one by name refers to the actor that has the name now.
//
// Errors: reasons and answers that are errors keep their text and what they wrap. errors.Is and
// errors.As find the errors of this module and of package context, and registered ones.
//
// Flow: a node that is slow to handle messages slows its senders down: Send waits as long as its
// context allows.
//
// # Security
//
// Nodes authenticate each other before anything else is read: see package link. An authenticated
// node may send messages to actors whose address it has and end them, subscribe to events, publish
// them, and ask for the members of groups. To start or stop anything it needs permission by name. A
// node can answer only questions that were sent to it or forwarded. Malformed frames are refused,
// counted ([Cluster.Malformed]) and logged.
//
// # Concurrency and ownership
//
// All methods may be called by many goroutines. A message is encoded before Send
// returns: unlike one for an actor of the same node it is not shared with the receiver.
//
// # Limits
//
// [Options.MaxMessage]; 65,536 types; 64 requests of one node are served at a time. A mailbox with
// the policy Block takes 1,024 messages of other nodes beyond its limit. If it stays full then, all
// messages that come on the same connection wait.
//
// # Testing
//
// The tests run all semantics on real nodes over the loopback, plain and with TLS, and a random
// program while connections are cut, compared with a model. There are a hostile peer, and golden
// bytes and fuzzing of all frames. Package clustertest has nodes as processes.
//
//snippet:type Order struct{ ID int }
//snippet:var node *actor.Node
//snippet:var certificates *link.TLS
package cluster

// Package shard spreads actors over the nodes of a cluster by key: each key has one actor, on one
// node, and its senders need not know which.
//
// # Words
//
// A [Region] is one node's part of a set of keys. All regions of one name have the same number of
// shards; the key of a message determines its shard. Each shard has at most one owner, a node that
// holds the lease of the shard (see package lease). The owner starts the actor of a key when a
// message for it comes, and passivates it when it has been idle, as [actor.Keyed] does. An [Entity]
// is the key and the lease that such an actor is made with. Each region has a router, an actor that
// sends messages on to the owners of their shards.
//
//	r, err := shard.Open(cluster, keeper, "carts", func(m Message) string { return m.Cart },
//		func(e shard.Entity) actor.Actor[Message] { return &cart{id: e.Key, lease: e.Lease} }, nil)
//	err = r.Ref().Send(ctx, Add{Cart: "42", Item: "tea"})
//
// The messages are of the user's own type M, registered with the cluster; they carry their key.
// Answers go straight to the asker.
//
// # Who owns a shard
//
// The node with the highest hash of its name and the shard, among the nodes whose regions take
// shards: rendezvous hashing. When such a region opens, only the shards that it is to own move; when
// one closes, only those that it had. To move a shard its owner drains its actors, so that they
// handle the messages they have, and releases the lease; then the next owner acquires it.
//
// # Guarantees
//
// At most one living actor for a key: its [lease.Lease] fences its writes to the log of the cluster
// (see [lease.Lease.Fence]), and a node that is cut off from the log stops its actors before others
// can start theirs, within the bounds that package lease names.
//
// Messages of one sender to one key are handled in the order in which they were sent, also while the
// shard moves from one living node to another: later messages wait until the earlier ones have
// arrived by the former way. That order can be lost if the former way takes longer than half a
// minute, a message is forwarded more than eight times, or a buffer overflows.
//
// No message is lost by a move, as long as the connections between the nodes lose none, every node
// sees the move before a region that was closed stops forwarding ([Options.Linger]), and no buffer
// overflows. The messages and actors of a node that crashes are lost: actors keep in the log
// what must survive.
//
// At most [Options.Buffer] messages wait per shard, node, and number of times forwarded; those
// beyond are dead letters. A node that is slow to take messages slows down the senders of the region.
//
// # Concurrency and ownership
//
// A Region may be used by many goroutines. Its actors are descendants of the router, an actor of the
// node, so they end with the node at the latest. The keeper belongs to the caller, who closes it
// after the region.
//
// # Limits
//
// [MaxShards], and [actor.MaxName] less a prefix for the name. A shard costs one lease: one record in
// the cluster's bucket, written when it moves. The router of a node handles all messages that the
// node sends and receives for the region, and one actor per shard those of the shard.
//
// # Testing
//
// The tests let senders on several nodes count while regions open and close, in virtual
// time, and check that each message is handled once, in order, by one owner at a time.
//
//snippet:type Message = Add
//snippet:type Add struct{ Cart, Item string }
//snippet:type cart struct { id string; lease *lease.Lease }
//snippet:func (*cart) Receive(*actor.Context[Message], Message) error { return nil }
//snippet:var cluster *cluster.Cluster
//snippet:var keeper *lease.Keeper
package shard

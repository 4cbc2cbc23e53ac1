// Package shard spreads actors over the nodes of a cluster by key: each key has one
// actor, on one node, and its senders need not choose the node.
//
// # Words
//
// A [Region] is one node's part. All regions of one name share a number of shards;
// the key of a message says which shard it is for, and each shard has an owner, by a
// lease (see package lease). The owner starts the actor of a key when there is a
// message for it, and passivates it when it has been idle, as [actor.Keyed] does. An [Entity] is
// the key and the lease that such an actor is made with.
//
//	r, err := shard.Open(cluster, keeper, "carts", func(m Message) string { return m.Cart },
//		func(e shard.Entity) actor.Actor[Message] { return &cart{id: e.Key, lease: e.Lease} }, nil)
//	err = r.Ref().Send(ctx, Add{Cart: "42", Item: "tea"})
//
// The messages are the user's own type M, registered with the cluster; they carry
// their key. Answers go straight to who asked.
//
// # Who owns a shard
//
// The region with the highest hash of its node's name and the shard: rendezvous
// hashing. When a region comes, only the shards move that it is to own; when one goes,
// only those that it had. To move a shard its owner stops its actors, which handle
// what they have first, releases the lease, and the next takes it.
//
// # Guarantees
//
// At most one living actor for a key: its [lease.Lease] fences what it writes to the log of
// the cluster (see [lease.Lease.Fence]), and a node that is cut off stops its
// actors before others can start theirs, within the bounds that package lease names.
//
// Messages of one sender to one key are handled in the order in which they were sent, also
// while the shard moves from one living node to another: those that come meanwhile wait, and what
// was sent by the old way arrives before what is sent by the new, unless that takes longer than
// half a minute. No message is lost by a
// move, as long as the connections between the nodes lose none, and a node sees the move
// before a region that was closed has lingered long enough ([Options.Linger]). The
// messages and actors of a node that crashes are lost: actors keep in the log what must survive.
//
// Messages that wait for an owner beyond [Options.Buffer] are dead letters. A node that is slow
// to take messages slows down the senders of the region.
//
// # Concurrency and ownership
//
// A Region may be used from many goroutines. Its actors are children of one actor of
// the node, so they end with the node at the latest. The keeper belongs to the caller, who closes it
// after the region.
//
// # Limits
//
// [MaxShards], and [actor.MaxName] for the name with some added. A shard is one lease: one
// record in the cluster's bucket, written when it moves. One actor on each node sees all messages of
// the region, and one for each shard those of the shard.
//
// # Testing
//
// The tests let senders on several nodes count while regions come and go, in virtual
// time, and check that each message is handled once, in order, by one owner at a time.
//
//snippet:type Message = Add
//snippet:type Add struct{ Cart, Item string }
//snippet:type cart struct { id string; lease *lease.Lease }
//snippet:func (*cart) Receive(*actor.Context[Message], Message) error { return nil }
//snippet:var cluster *cluster.Cluster
//snippet:var keeper *lease.Keeper
package shard

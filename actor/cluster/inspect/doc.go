// Package inspect describes the nodes of a cluster and their actors, for people: names, states,
// mailboxes, and the data that an actor shows of itself.
//
// A node with an [Inspector] answers questions about itself, and can ask every other node of its
// cluster that has one. The command mainstem actor asks by way of a server that is a node.
//
//	i, err := inspect.New(cluster)
//	...
//	tree, more, err := i.Tree(ctx, "shop", 0)
//
// # Guarantees
//
// The data of one actor are of one moment. Actors that are started or end during a call may be
// missing. Questions change nothing. [actor.Inspector] is called in a turn of the actor, between two
// messages; all other data are read without one.
//
// # Concurrency and ownership
//
// An Inspector may be used by many goroutines. It is an actor, which ends with its node.
//
// # Limits
//
// [MaxActors], [MaxAsked]. Any node of the cluster may ask.
//
//snippet:var cluster *cluster.Cluster
package inspect

// Package inspect shows what lives on the nodes of a cluster: which nodes there are,
// which actors, and what each is doing.
//
// A node answers questions about itself once it has an [Inspector], and asks any other node of its
// cluster that has one. So does the command mainstem actor, by way of a
// server that is a node itself.
//
//	i, err := inspect.New(cluster)
//	...
//	tree, more, err := i.Tree(ctx, "shop", 0)
//
// # Guarantees
//
// The data of one actor are of one moment; actors that come and go meanwhile may be
// missed. Nothing is changed by looking. [actor.Inspector] is called between two
// messages of the actor; all else needs no turn of it.
//
// # Concurrency and ownership
//
// An Inspector may be used from many goroutines. It is an actor, which ends with its node.
//
// # Limits
//
// [MaxActors], [MaxAsked]. Any node of the cluster may ask.
//
//snippet:var cluster *cluster.Cluster
package inspect

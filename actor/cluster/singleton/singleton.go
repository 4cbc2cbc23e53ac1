// Package singleton runs an actor of which there is one in the whole cluster.
//
// Every node that may run the actor, or sends to it, opens a [Singleton] of its name. One of the
// nodes that may run it holds a lease and does. When that node closes it, crashes, or loses the
// log, another node starts a new one. [Singleton.Ref] sends to the actor on whatever node; messages
// that come while it moves wait.
//
//	s, err := singleton.Open(cluster, keeper, "invoicing", func(l *lease.Lease) actor.Actor[Message] {
//		return &invoicing{lease: l}
//	}, nil)
//	err = s.Ref().Send(ctx, Bill{Order: 42})
//
// # Guarantees
//
// At most one: the actor gets its [lease.Lease]. A commit to the log of the cluster under
// [lease.Lease.Fence] is refused once another one may run. A node that loses the log stops the actor
// before another node can start its own, if it stops within a quarter of the keeper's TTL, under the
// conditions of package lease.
//
// The actor does not move while its node keeps the lease. If it crashes it is started again with a
// new lease, possibly on another node; on the same node after a pause that grows with each failure.
//
// Messages: a singleton is a region of package shard with one shard, so order, delivery and limits
// are the same.
//
//snippet:type Message = Bill
//snippet:type Bill struct{ Order int }
//snippet:type invoicing struct{ lease *lease.Lease }
//snippet:func (*invoicing) Receive(*actor.Context[Message], Message) error { return nil }
//snippet:var cluster *cluster.Cluster
//snippet:var keeper *lease.Keeper
package singleton

import (
	"context"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/shard"
	"github.com/mainstemdev/mainstem/lease"
)

// Options configure a [Singleton]; nil means the defaults. Entities are the options of the actor.
// Shards is ignored.
type Options = shard.Options

// Singleton is one node's handle on an actor of which there is one in the cluster. It is safe
// for concurrent use.
type Singleton[M any] struct{ region *shard.Region[M] }

// Open makes this node one of those that may run the actor of a name. fresh makes the actor when
// the node has the lease; with fresh nil the node only sends. The type M must be registered with
// the cluster under the same name on all nodes. Open does not wait for the actor. It fails with
// Exists if the node has opened the name, also as a region of package shard, and with Invalid for
// wrong options.
func Open[M any](c shard.Cluster, k *lease.Keeper, name string, fresh func(*lease.Lease) actor.Actor[M], o *Options) (*Singleton[M], error) {
	r, err := shard.Sole(c, k, name, fresh, o)
	if err != nil {
		return nil, err
	}
	return &Singleton[M]{r}, nil
}

// Ref returns a reference to the actor on whatever node; see [shard.Region.Ref].
func (s *Singleton[M]) Ref() actor.Ref[M] { return s.region.Ref() }

// Owner returns the node that runs the actor and the epoch of its lease, as far as
// this node has seen; false if none does.
func (s *Singleton[M]) Owner() (node string, epoch uint64, ok bool) { return s.region.Owner(0) }

// Close ends the handle. If the actor runs here it handles the messages that it has and ends, and
// another node starts it; queued messages are forwarded. It fails with Canceled when ctx ends first;
// then the actor is stopped.
func (s *Singleton[M]) Close(ctx context.Context) error { return s.region.Close(ctx) }

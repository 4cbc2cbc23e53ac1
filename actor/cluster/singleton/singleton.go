// Package singleton runs an actor of which there is one in the whole cluster.
//
// Each node that can run it opens it; one of them does, by a lease, and when that
// node goes, crashes, or loses the log, another starts a new one. A node that has opened it sends to it by
// [Singleton.Ref], wherever it is; what comes while it moves waits.
//
//	s, err := singleton.Open(cluster, keeper, "invoicing", func(l *lease.Lease) actor.Actor[Message] {
//		return &invoicing{lease: l}
//	}, nil)
//	err = s.Ref().Send(ctx, Bill{Order: 42})
//
// # Guarantees
//
// At most one: the actor gets its [lease.Lease]. A commit to the log of the
// cluster under [lease.Lease.Fence] is refused once another may run, and
// its node stops it before another node can start its own, if it stops within a quarter of the keeper's
// TTL. Package lease says under what conditions.
//
// It stays where it is as long as its node does: one that could run elsewhere too does
// not move. If it fails it is started anew, with a new lease, after a pause that grows as it
// fails again.
//
// Messages of one sender are handled in order, as package shard says, of which this is
// the case of one shard: its limits are the same.
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

// Options configure a [Singleton]; nil means the defaults. They are those of package
// shard: Entities are the options of the actor, Shards is always 1.
type Options = shard.Options

// Singleton is one node's handle on an actor of which there is one in the cluster. It is safe
// for concurrent use.
type Singleton[M any] struct{ region *shard.Region[M] }

// Open lets a node run the actor called name, if no other does: fresh makes it. With
// fresh nil the node only sends to it. The type M must be registered with the cluster
// under the same name on all nodes. It fails with Exists if the node has opened that name before.
func Open[M any](c shard.Cluster, k *lease.Keeper, name string, fresh func(*lease.Lease) actor.Actor[M], o *Options) (*Singleton[M], error) {
	r, err := shard.Sole(c, k, name, fresh, o)
	if err != nil {
		return nil, err
	}
	return &Singleton[M]{r}, nil
}

// Ref returns a reference to the actor wherever it is, now and later.
func (s *Singleton[M]) Ref() actor.Ref[M] { return s.region.Ref() }

// Owner returns the node that runs the actor and the epoch of its lease, as far as
// this node has seen; false if none does.
func (s *Singleton[M]) Owner() (node string, epoch uint64, ok bool) { return s.region.Owner(0) }

// Close lets the actor handle what it has and stop, if it runs here, passes on what
// waits, and ends the handle. It fails with Canceled when ctx ends first.
func (s *Singleton[M]) Close(ctx context.Context) error { return s.region.Close(ctx) }

// Package names gives actors names that only one actor of a whole cluster has.
//
//	n, err := names.Register(ctx, keeper, "printer", ref) // on one node
//	ref, err = names.Lookup[Job](keeper, node, "printer") // on any
//
// A name is a lease (see package lease): it is taken by the first, free again when it
// is released, the actor ends, or its node is gone, and comes with an epoch that fences the writes of a
// former owner.
//
// # Errors
//
// Exists (lease.ErrHeld) for a name that is taken, NotFound for one that nobody has,
// Invalid for names and references that cannot be, and what [lease.Keeper.Acquire] fails with.
//
// # Concurrency and ownership
//
// All functions may be called from many goroutines. A Name owns a goroutine until it is over.
//
//snippet:type Job struct{}
//snippet:var keeper *lease.Keeper
//snippet:var node *actor.Node
//snippet:var ref actor.Ref[Job]
package names

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/lease"
)

// MaxName is the longest name, in bytes.
const MaxName = actor.MaxName

const prefix = "name/"

// Name is a name that an actor of this node has. It is safe for concurrent use.
type Name struct {
	lease *lease.Lease
	done  chan struct{} // closed when its goroutine has ended
}

// Register gives an actor of the keeper's own node a name, until the actor ends, the
// session of the keeper is over, or [Name.Release]. It fails with Exists if an actor has the name.
func Register[M any](ctx context.Context, k *lease.Keeper, name string, ref actor.Ref[M]) (*Name, error) {
	if name == "" || len(name) > MaxName {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "register", "the name %.64q has %d bytes: want 1 to %d", name, len(name), MaxName)
	}
	if at := ref.Address(); at.Node != k.Self().Name {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "register", "%s is no actor of node %q", ref, k.Self().Name)
	}
	text, err := ref.MarshalText()
	if err != nil {
		return nil, err
	}
	l, err := k.Acquire(ctx, prefix+name, string(text))
	if err != nil {
		return nil, err
	}
	n := &Name{lease: l, done: make(chan struct{})}
	go n.watch(k.Context(), ref)
	return n, nil
}

// watch releases the name when the actor has ended. Its context is the keeper's: Release
// itself ends the lease before it writes.
func (n *Name) watch(ctx context.Context, ref actor.AnyRef) {
	defer close(n.done)
	leased, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-n.lease.Done():
			cancel()
		case <-leased.Done():
		}
	}()
	if _, err := actor.Wait(leased, ref); err == nil {
		_ = n.lease.Release(ctx) // if the log cannot be reached, the session tries again
	}
}

// Lease returns the lease that the name is: its epoch, and what fences writes.
func (n *Name) Lease() *lease.Lease { return n.lease }

// Release frees the name. If that goes on already, because the actor has ended, it waits
// for it.
func (n *Name) Release(ctx context.Context) error {
	began := time.Now()
	err := n.lease.Release(ctx)
	select {
	case <-n.done:
		return err
	case <-ctx.Done():
		return errors.Join(err, mainstem.Ended(ctx, "release the name", began, "the log that holds it"))
	}
}

// Lookup returns the actor that has a name, on whatever node, as far as k has seen.
// Whether it takes messages of type M shows when it is sent one, unless it is of this node.
func Lookup[M any](k *lease.Keeper, node *actor.Node, name string) (actor.Ref[M], error) {
	h, ok := k.Holder(prefix + name)
	if !ok {
		return actor.Ref[M]{}, mainstem.Errorf(mainstem.KindNotFound, fmt.Sprintf("look up %.64q", name), "no actor of the cluster has the name")
	}
	at, err := actor.ParseAddress(h.Value)
	if err != nil {
		return actor.Ref[M]{}, err
	}
	return actor.At[M](node, at)
}

// All returns the names that are taken, with the nodes of their owners.
func All(k *lease.Keeper) map[string]string {
	all := make(map[string]string)
	for _, h := range k.Holders(prefix) {
		all[h.Key[len(prefix):]] = h.Node
	}
	return all
}

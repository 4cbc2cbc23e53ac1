// Package names gives actors names that are unique in a whole cluster.
//
//	n, err := names.Register(ctx, keeper, "printer", ref) // on one node
//	ref, err = names.Lookup[Job](keeper, node, "printer") // on any
//
// A name is a lease (see package lease). The first actor that is registered has it until the name is
// released, the actor ends, or its node is gone. The lease has an epoch, and fences the writes of a
// former owner.
//
// # Errors
//
// Exists (lease.ErrHeld) for a name that is held, NotFound for one that is not, Invalid for names and
// references that are not valid, and the errors of [lease.Keeper.Acquire].
//
// # Concurrency and ownership
//
// All functions may be called by many goroutines. A Name owns two goroutines until it is over.
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

// Name is the name of an actor of this node. It is safe for concurrent use.
type Name struct {
	lease *lease.Lease
	done  chan struct{} // closed when watch has ended
}

// Register gives an actor of the keeper's own node a name, until the actor ends, the session of the
// keeper is over, or [Name.Release]. When it returns the name is in the log. It fails with Exists
// if an actor has the name, also if it is this one, and Invalid if the actor is of another node.
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

// watch is the goroutine of a name: it releases the name when the actor has ended, and ends when the
// lease is over. ctx ends with the keeper.
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
		_ = n.lease.Release(ctx) // if the log cannot be reached, the session of the keeper tries again
	}
}

// Lease returns the lease of the name, which has its epoch and fences writes.
func (n *Name) Lease() *lease.Lease { return n.lease }

// Release frees the name. If the actor has ended and its name is being released, it waits for that.
// It fails as [lease.Lease.Release] does, or with Canceled when ctx ends first. Releasing again
// does nothing.
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

// Lookup returns a reference to the actor that has a name, on whatever node, as far as k has seen.
// It does not wait. It fails with NotFound if no actor has the name. If the actor is of another
// node, it is not checked whether it takes messages of type M: a message that it does not take is a
// dead letter there.
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

// All returns the names that are held, as far as k has seen, with the nodes of their actors.
func All(k *lease.Keeper) map[string]string {
	all := make(map[string]string)
	for _, h := range k.Holders(prefix) {
		all[h.Key[len(prefix):]] = h.Node
	}
	return all
}

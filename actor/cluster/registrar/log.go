package registrar

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/lease"
)

// Log is a registrar on a log. It announces one node, and resolves the others. Make it with [New].
type Log struct {
	log     mainstem.Log
	options *lease.Options

	turn   chan struct{}                // of capacity 1: held by Announce and Withdraw
	keeper atomic.Pointer[lease.Keeper] // nil: no node is announced. Changed with turn held
}

// New returns a registrar on a log. It does not use the log before a node is announced. The log
// belongs to the caller, who closes it after Withdraw.
func New(log mainstem.Log, o *lease.Options) *Log {
	r := &Log{log: log, turn: make(chan struct{}, 1)}
	if o != nil {
		own := *o
		r.options = &own
	}
	return r
}

// Announce makes a node a member of the cluster, at an address. If an earlier life of the node has
// crashed, it waits until its session has ended. It fails with Exists if another node of that name
// lives, or if this registrar has announced a node; otherwise as [lease.Open] does. Until it is
// done, no node is announced for Resolve and Keeper.
func (r *Log) Announce(ctx context.Context, node string, start uint64, addr string) error {
	if err := r.take(ctx, "announce node "+node); err != nil {
		return err
	}
	defer r.pass()
	if k := r.keeper.Load(); k != nil {
		return mainstem.Errorf(mainstem.KindExists, "announce node "+node, "this registrar has announced %s", k.Self().Name)
	}
	k, err := lease.Open(ctx, r.log, lease.Member{Name: node, Start: start, Address: addr}, r.options)
	if err != nil {
		return err
	}
	r.keeper.Store(k)
	return nil
}

// Withdraw ends the membership of a node, and all its leases. It does nothing if another node, or
// none, is announced. It waits for an Announce that is under way, and fails with Canceled if ctx
// ends first.
func (r *Log) Withdraw(ctx context.Context, node string, start uint64) error {
	if err := r.take(ctx, "withdraw node "+node); err != nil {
		return err
	}
	defer r.pass()
	k := r.keeper.Load()
	if k == nil {
		return nil
	}
	if self := k.Self(); self.Name != node || self.Start != start {
		return nil
	}
	r.keeper.Store(nil)
	return k.Close(ctx)
}

// take waits for the turn, which pass gives back.
func (r *Log) take(ctx context.Context, op string) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	default:
	}
	began := time.Now()
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return mainstem.Ended(ctx, op, began, "another Announce or Withdraw of this registrar")
	}
}

func (r *Log) pass() { <-r.turn }

// Keeper returns the keeper of the announced node, which sees the members and acquires leases; nil
// if no node is announced, as while Announce waits.
func (r *Log) Keeper() *lease.Keeper { return r.keeper.Load() }

// Resolve returns the address of a member, as this node has seen it last; it does not read the log.
// It fails with NotFound if there is no such member or it does not listen, Unavailable if no node
// is announced yet. It does not wait.
func (r *Log) Resolve(_ context.Context, node string) (string, error) {
	k := r.Keeper()
	if k == nil {
		return "", mainstem.Errorf(mainstem.KindUnavailable, fmt.Sprintf("find node %.64q", node), "no node is announced yet")
	}
	m, ok := k.Member(node)
	if !ok || m.Address == "" {
		return "", notFound(node, errors.New("it is no member of the cluster, or listens nowhere"))
	}
	return m.Address, nil
}

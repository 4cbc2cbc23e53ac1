package registrar

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/lease"
)

// Log is a registrar on a log. It announces one node, and resolves the others. Make it with [New].
type Log struct {
	log     mainstem.Log
	options *lease.Options

	mu     sync.Mutex    // guards keeper; held during all of Announce and Withdraw
	keeper *lease.Keeper // nil: no node is announced
}

// New returns a registrar on a log. It does not use the log before a node is announced. The log
// belongs to the caller, who closes it after Withdraw.
func New(log mainstem.Log, o *lease.Options) *Log {
	r := &Log{log: log}
	if o != nil {
		own := *o
		r.options = &own
	}
	return r
}

// Announce makes a node a member of the cluster, at an address. If an earlier life of the node has
// crashed, it waits until its session has ended. It fails with Exists if another node of that name
// lives, or if this registrar has announced a node; otherwise as [lease.Open] does. Resolve, Keeper
// and Withdraw wait until it is done.
func (r *Log) Announce(ctx context.Context, node string, start uint64, addr string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keeper != nil {
		return mainstem.Errorf(mainstem.KindExists, "announce node "+node, "this registrar has announced %s", r.keeper.Self().Name)
	}
	k, err := lease.Open(ctx, r.log, lease.Member{Name: node, Start: start, Address: addr}, r.options)
	if err != nil {
		return err
	}
	r.keeper = k
	return nil
}

// Withdraw ends the membership of a node, and all its leases. It does nothing if another node, or
// none, is announced.
func (r *Log) Withdraw(ctx context.Context, node string, start uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.keeper
	if k == nil {
		return nil
	}
	if self := k.Self(); self.Name != node || self.Start != start {
		return nil
	}
	r.keeper = nil
	return k.Close(ctx)
}

// Keeper returns the keeper of the announced node, which sees the members and acquires leases; nil
// if no node is announced.
func (r *Log) Keeper() *lease.Keeper {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keeper
}

// Resolve returns the address of a member, as this node has seen it last; it does not read the log.
// It fails with NotFound if there is no such member or it does not listen, Unavailable if no node
// is announced. It waits for an Announce or Withdraw that is under way, whatever its context.
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

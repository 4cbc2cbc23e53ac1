package registrar

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/lease"
)

// Log is a registrar on a log. It stands for one node, which it announces, and
// resolves all others. Make it with [New].
type Log struct {
	log     mainstem.Log
	options *lease.Options

	mu     sync.Mutex // guards the field below, and is held while a node is announced
	keeper *lease.Keeper
}

// New returns a registrar on a log, which reads and writes nothing until a node is
// announced. The log belongs to the caller.
func New(log mainstem.Log, o *lease.Options) *Log {
	r := &Log{log: log}
	if o != nil {
		own := *o
		r.options = &own
	}
	return r
}

// Announce makes a node a member of the cluster, at an address. If a node of that name
// crashed a moment ago, it waits until that one is forgotten; it fails with Exists
// if such a node lives, or this registrar has announced one.
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

// Withdraw takes the announcement back, and all leases with it. It is no error
// if nothing was announced.
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

// Keeper returns what knows the members and can have leases: nil while no node is announced.
func (r *Log) Keeper() *lease.Keeper {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keeper
}

// Resolve returns the address of a member. It looks at what this node has seen, and
// waits for nothing.
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

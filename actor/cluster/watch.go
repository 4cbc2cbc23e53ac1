package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/actor"
)

// NodeInfo describes another node.
type NodeInfo struct {
	Name  string
	Start uint64 // which of its lives: see actor.Address
	Addr  string // where it can be dialed, "" if it cannot
}

// NodeEvent says that another node is up or down.
type NodeEvent struct {
	NodeInfo
	Up     bool
	Reason error // why it is down
}

func (s *session) info() NodeInfo {
	return NodeInfo{Name: s.name, Start: s.start, Addr: s.peer.Advertised()}
}

// Watch calls f for every node that goes up or down from now on, in order for each
// node, after it was called for those that are up now. f must not block, nor call Watch; cancel ends it.
func (c *Cluster) Watch(f func(NodeEvent)) (cancel func()) {
	w := &c.watchers
	w.turn.Lock()
	defer w.turn.Unlock()
	for _, s := range c.sessions.Load().byName {
		f(NodeEvent{NodeInfo: s.info(), Up: true})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all[&f] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, &f)
	}
}

// Events returns the event that says which nodes go up and down. Those that are up
// already are not in it: see [Cluster.Nodes].
func (c *Cluster) Events() *actor.Event[NodeEvent] { return c.watchers.event }

// watchers are called when nodes go up and down.
type watchers struct {
	event *actor.Event[NodeEvent]
	turn  sync.Mutex // held while they are called, so that each gets the changes in order
	mu    sync.Mutex // guards all
	all   map[*func(NodeEvent)]struct{}
}

func (w *watchers) open(node *actor.Node) (err error) {
	w.all = make(map[*func(NodeEvent)]struct{})
	w.event, err = actor.NewEvent[NodeEvent](node, "", nil)
	return err
}

// notify makes the change and calls all watchers.
func (w *watchers) notify(ctx context.Context, change func(), e NodeEvent) {
	w.turn.Lock()
	defer w.turn.Unlock()
	change()
	w.mu.Lock()
	all := slices.Collect(maps.Keys(w.all))
	w.mu.Unlock()
	for _, f := range all {
		_ = guard(func() error { (*f)(e); return nil })
	}
	_, _ = w.event.Publish(ctx, e)
}

// root is the context that never ends.
type root struct{}

func (root) Deadline() (time.Time, bool) { return time.Time{}, false }
func (root) Done() <-chan struct{}       { return nil }
func (root) Err() error                  { return nil }
func (root) Value(any) any               { return nil }

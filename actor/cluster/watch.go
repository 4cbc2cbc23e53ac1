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

// NodeEvent reports that another node is up or down.
type NodeEvent struct {
	NodeInfo
	Up     bool
	Reason error // why it is down; nil if Up
}

func (s *session) info() NodeInfo {
	return NodeInfo{Name: s.name, Start: s.start, Addr: s.peer.Advertised()}
}

// Watch calls f for every node that is up now, before it returns, and then for every node that goes
// up or down, one call at a time. f must neither block nor call Watch. After cancel has returned, a
// call that was under way may still run.
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

// Events returns the event of this node whose values report nodes that go up and down. It does not
// report those that are up already: see [Cluster.Nodes].
func (c *Cluster) Events() *actor.Event[NodeEvent] { return c.watchers.event }

// watchers are the functions of Watch. Lock order: turn before mu and Cluster.mu.
type watchers struct {
	event *actor.Event[NodeEvent]
	turn  sync.Mutex // held during a change and its calls, so that all changes are reported in order
	mu    sync.Mutex // guards all
	all   map[*func(NodeEvent)]struct{}
}

func (w *watchers) open(node *actor.Node) (err error) {
	w.all = make(map[*func(NodeEvent)]struct{})
	w.event, err = actor.NewEvent[NodeEvent](node, "", nil)
	return err
}

// notify makes a change to the nodes that are up, calls all watchers, and publishes the event.
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

// root is a context that never ends.
type root struct{}

func (root) Deadline() (time.Time, bool) { return time.Time{}, false }
func (root) Done() <-chan struct{}       { return nil }
func (root) Err() error                  { return nil }
func (root) Value(any) any               { return nil }

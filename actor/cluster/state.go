package cluster

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// State says how another node stands, as this node sees it.
type State uint8

// The states.
//
//	NeverSeen --connected--> Up --connection lost--> Suspect --Options.DownAfter--> Down
//	                         ^                          |                            |
//	                         +---- connected again -----+----------------------------+
//
// A node that leaves is Down at once.
const (
	NeverSeen State = iota // no connection was ever made with it
	Up                     // there is a connection
	Suspect                // the connection is lost; what is sent waits for another
	Down                   // it has left, or was out of reach for [Options.DownAfter]
)

// String returns the name of the state: "never seen", "up", "suspect" or "down".
func (s State) String() string {
	if s > Down {
		return "unknown state"
	}
	return [...]string{"never seen", "up", "suspect", "down"}[s]
}

// NodeState is another node with its state.
type NodeState struct {
	NodeInfo
	State  State
	Since  time.Time // when it came into that state; zero if it was never seen
	Reason error     // why it is down, else nil
}

// maxDown is how many nodes that are down are kept: those that went down last.
const maxDown = 1024

// downNodes are the nodes that were up and are down now.
type downNodes struct {
	mu  sync.Mutex // guards all
	all map[string]NodeState
}

func (d *downNodes) put(info NodeInfo, reason error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = make(map[string]NodeState)
	}
	d.all[info.Name] = NodeState{NodeInfo: info, State: Down, Since: time.Now(), Reason: reason}
	if len(d.all) > maxDown {
		oldest := slices.MinFunc(slices.Collect(maps.Values(d.all)), func(a, b NodeState) int { return a.Since.Compare(b.Since) })
		delete(d.all, oldest.Name)
	}
}

func (d *downNodes) remove(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, node)
}

func (d *downNodes) copy() map[string]NodeState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.all)
}

func (s *session) state() NodeState {
	n := NodeState{NodeInfo: s.info(), State: Up}
	var connected bool
	if connected, n.Since = s.peer.Connected(); !connected {
		n.State = Suspect
	}
	return n
}

// States returns the other nodes that this one knows of, by name: those that are or
// were connected, and those of [Options.Peers]. Of those that are down it knows the
// 1,024 that went down last.
func (c *Cluster) States() []NodeState {
	all := c.down.copy()
	if all == nil {
		all = make(map[string]NodeState)
	}
	for name, addr := range c.opts.Peers {
		if _, ok := all[name]; !ok && name != c.node.Name() {
			all[name] = NodeState{NodeInfo: NodeInfo{Name: name, Addr: addr}}
		}
	}
	for name, s := range c.sessions.Load().byName {
		all[name] = s.state()
	}
	return slices.SortedFunc(maps.Values(all), func(a, b NodeState) int { return cmp.Compare(a.Name, b.Name) })
}

// State returns how another node stands; [NeverSeen] if nothing is known of that name.
func (c *Cluster) State(node string) NodeState {
	if s := c.sessions.Load().named(node); s != nil {
		return s.state()
	}
	if n, ok := c.down.copy()[node]; ok {
		return n
	}
	return NodeState{NodeInfo: NodeInfo{Name: node, Addr: c.opts.Peers[node]}}
}

package cluster

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// State is the state of another node as this node sees it.
type State uint8

// The states.
//
//	NeverSeen --connected--> Up --connection lost--> Suspect --Options.DownAfter--> Down
//	                         ^                          |                            |
//	                         +---- connected again -----+----------------------------+
//
// A node that leaves is Down at once.
const (
	NeverSeen State = iota // this node has no record of a session with it
	Up                     // at least one connection is there
	Suspect                // all connections are lost; messages wait for another
	Down                   // it has left, was restarted, or was out of reach for [Options.DownAfter]
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
	Since  time.Time // when that state began; zero if NeverSeen
	Reason error     // why it is down, else nil
}

// maxDown is the number of nodes in downNodes; the one that went down first is dropped.
const maxDown = 1024

// downNodes are the nodes that were up and are down now, by name.
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

// States returns the states of other nodes, by name: of those that are up or suspect, of the 1,024
// that went down last, and of [Options.Peers].
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

// State returns the state of another node; [NeverSeen] if this node has no state of it.
func (c *Cluster) State(node string) NodeState {
	if s := c.sessions.Load().named(node); s != nil {
		return s.state()
	}
	if n, ok := c.down.copy()[node]; ok {
		return n
	}
	return NodeState{NodeInfo: NodeInfo{Name: node, Addr: c.opts.Peers[node]}}
}

package cluster

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
)

// Cluster is one node's membership. Make it with [Join]. It is safe for concurrent use.
type Cluster struct {
	node  *actor.Node
	in    actor.Inbound // the side of node that takes messages of others
	opts  *Options      // with defaults
	log   *slog.Logger
	kinds *kinds
	end   *link.Endpoint

	life   context.Context // ends in Leave, after the endpoint was closed
	cancel context.CancelFunc
	work   group // goroutines that serve requests, send replies and end subscriptions

	// sessions is the table of the sessions that are up. It is read without a lock and never
	// changed: change, under mu, replaces it.
	sessions atomic.Pointer[sessions]
	mu       sync.Mutex

	watchers watchers
	down     downNodes
	offers   offers  // actors and applications that other nodes may start here
	mirrors  mirrors // events of other nodes

	announced bool          // Join has called Announce, so Leave calls Withdraw
	late      chan struct{} // one element for each answer that waits for a node to be dialed
	malformed atomic.Uint64 // frames that were refused
	left      sync.Once     // of Leave
	leaving   atomic.Bool   // Leave was called: no node is dialed
	leaveErr  error         // of Leave, set in left
}

// sessions is a table of sessions.
type sessions struct {
	few     []*session // all of them if there are at most maxFew, which is quicker to search; else nil
	byName  map[string]*session
	byPeer  map[*link.Peer]*session
	changed chan struct{} // closed when another table has replaced this one
}

const maxFew = 4 // sessions

// named returns the session with a node, nil if there is none.
func (t *sessions) named(node string) *session {
	for _, s := range t.few {
		if s.name == node {
			return s
		}
	}
	return t.byName[node]
}

// of returns the session of a peer, nil if there is none.
func (t *sessions) of(p *link.Peer) *session {
	for _, s := range t.few {
		if s.peer == p {
			return s
		}
	}
	return t.byPeer[p]
}

// group is a WaitGroup to which nothing can be added after close.
type group struct {
	mu     sync.Mutex // guards the fields below, and Add
	closed bool
	wg     sync.WaitGroup
}

// Go runs f in a goroutine, unless the group is closed.
func (g *group) Go(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.wg.Go(f)
	}
}

// close closes the group and waits for its goroutines, as long as ctx allows.
func (g *group) close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	done := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(done)
	}()
	began := time.Now()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done:
		return nil
	default:
		return mainstem.Ended(ctx, "drain the cluster", began, "what other nodes have asked for")
	}
}

// Join makes a node a member of a cluster. From then on references to actors of other nodes can be
// used; nodes are dialed when they are needed. It fails with Invalid for wrong options, Exists if the
// node has another transport, Unavailable if it cannot listen, or with the error of
// [Announcer].Announce, for which it waits.
//
// Call [Cluster.Leave] before the node stops. A node that has left cannot join again.
func Join(node *actor.Node, o *Options) (*Cluster, error) {
	opts := o.withDefaults()
	lo, err := opts.link(node)
	if err != nil {
		return nil, err
	}
	if err := registerErrors(opts.Registry); err != nil {
		return nil, err
	}
	c := &Cluster{node: node, in: node.Inbound(), opts: opts, log: opts.Logger, kinds: newKinds(opts.Registry), late: make(chan struct{}, maxLate)}
	if _, err := c.kinds.update(); err != nil {
		return nil, err
	}
	c.life, c.cancel = context.WithCancel(root{})
	c.sessions.Store(&sessions{changed: make(chan struct{})})
	if err := c.watchers.open(node); err != nil {
		return nil, err
	}
	opened := make(chan struct{})
	if c.end, err = link.Open(lo, handler{c, opened}); err != nil {
		return nil, err
	}
	close(opened)
	if err := node.Connect(c); err != nil {
		return nil, errors.Join(err, c.Leave(c.life))
	}
	if a, ok := opts.Resolver.(Announcer); ok && c.Addr() != "" {
		addr := cmp.Or(opts.Advertise, c.Addr())
		ctx, cancel := context.WithTimeout(c.life, opts.AnnounceTimeout)
		defer cancel()
		c.announced = true
		if err := a.Announce(ctx, node.Name(), node.Start(), addr); err != nil {
			return nil, errors.Join(err, c.Leave(c.life))
		}
	}
	return c, nil
}

// Node returns the node that has joined.
func (c *Cluster) Node() *actor.Node { return c.node }

// Addr returns the address at which the node listens, "" if it does not.
func (c *Cluster) Addr() string {
	if a := c.end.Addr(); a != nil {
		return a.String()
	}
	return ""
}

// Malformed returns how many frames of other nodes were refused so far.
func (c *Cluster) Malformed() uint64 { return c.malformed.Load() }

// Nodes returns the other nodes that are up, by name.
func (c *Cluster) Nodes() []NodeInfo {
	var infos []NodeInfo
	for _, s := range c.sessions.Load().byName {
		infos = append(infos, s.info())
	}
	slices.SortFunc(infos, func(a, b NodeInfo) int { return cmp.Compare(a.Name, b.Name) })
	return infos
}

// Connect dials a node, if it is not up, and returns when it is. Send to one of its actors does
// that too. It waits for [Options.DialTimeout] at most. It fails with Invalid for this node itself,
// Denied if one node refuses the other, and else with Unavailable; errors.Is finds NotFound in that
// if a resolver does not find the address.
func (c *Cluster) Connect(ctx context.Context, node string) error {
	_, err := c.reach(ctx, node)
	return err
}

// Register gives a type a name: one of messages, answers, values of events, or of values inside of
// these. Every node that sends or receives the type must register it under that name. The name
// crosses the wire and must not change. See package binary for the changes to a type that are
// allowed while nodes of both versions run. Register sends the type to all nodes that are up.
func (c *Cluster) Register(name string, zero any) error {
	if err := c.kinds.codec.Register(name, zero); err != nil {
		return err
	}
	return c.announce()
}

// RegisterError gives an error value a name, so that errors.Is finds it on other nodes in reasons,
// answers and messages. It must be registered there too.
func (c *Cluster) RegisterError(name string, err error) error {
	if err := c.kinds.codec.RegisterError(name, err); err != nil {
		return err
	}
	return c.announce()
}

// announce sends all nodes the types that were registered since the last call, and answers again
// about types of theirs that were not known here before.
func (c *Cluster) announce() error {
	fresh, err := c.kinds.update()
	for _, s := range c.sessions.Load().byName {
		s.announce(fresh)
		s.reconsider()
	}
	return err
}

// Leave withdraws the announcement of this node, waits until all messages that were sent are
// acknowledged, as long as ctx allows, informs the other nodes, and closes all connections. It fails
// with Canceled if messages were left unacknowledged, which have become dead letters. A second Leave
// waits for the first and returns the same.
func (c *Cluster) Leave(ctx context.Context) error {
	c.leaving.Store(true)
	c.left.Do(func() {
		if a, ok := c.opts.Resolver.(Announcer); ok && c.announced {
			c.leaveErr = a.Withdraw(ctx, c.node.Name(), c.node.Start())
		}
		c.leaveErr = errors.Join(c.leaveErr, c.end.Close(ctx))
		c.cancel()
		c.leaveErr = errors.Join(c.leaveErr, c.work.close(ctx))
	})
	return c.leaveErr
}

// reach returns the session with a node. If there is none it dials, for Options.DialTimeout at most.
func (c *Cluster) reach(ctx context.Context, node string) (*session, error) {
	if s := c.sessions.Load().named(node); s != nil {
		return s, nil
	}
	if node == c.node.Name() {
		return nil, invalidf("%s is this node", node)
	}
	if c.leaving.Load() {
		return nil, unreachable(node, link.ErrClosed)
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.DialTimeout)
	defer cancel()
	p, err := c.end.Peer(ctx, node)
	if err != nil {
		return nil, unreachable(node, err)
	}
	// The peer is up, but handler.Up may not have changed the table yet, or not any more.
	for {
		t := c.sessions.Load()
		if s := t.named(node); s != nil {
			return s, nil
		}
		select {
		case <-t.changed:
		case <-p.Done():
			return nil, unreachable(node, link.ErrLost)
		case <-ctx.Done():
			return nil, unreachable(node, context.Cause(ctx))
		}
	}
}

// unreachable is the error of a node that cannot be reached: Unavailable, or Denied if the cause is.
func unreachable(node string, cause error) error {
	e := mainstem.Errorf(mainstem.KindUnavailable, "reach node "+node, "%w: %w", actor.ErrUnreachable, cause)
	if mainstem.KindOf(cause) == mainstem.KindDenied {
		e.Kind = mainstem.KindDenied
	}
	return e
}

// live returns the session with the life of a node that an address is of. It fails with Closed and
// ErrRestarted if the node has started again since.
func (c *Cluster) live(ctx context.Context, a actor.Address) (*session, error) {
	if a.ID == 0 && (a.Name == "" || len(a.Name) > actor.MaxName) {
		return nil, invalidf("there can be no actor of the name %.64q: want 1 to %d bytes", a.Name, actor.MaxName)
	}
	for {
		s, err := c.reach(ctx, a.Node)
		if err != nil || a.Start == 0 || a.Start == s.start {
			return s, err
		}
		if a.Start < s.start {
			return nil, &mainstem.Error{Kind: mainstem.KindClosed, Op: "reach " + a.String(), Err: actor.ErrRestarted}
		}
		// The reference is of a later life than the session, which will end as soon as that connects.
		limit, cancel := context.WithTimeout(ctx, c.opts.DialTimeout)
		select {
		case <-s.life.Done():
			cancel()
		case <-limit.Done():
			cancel()
			return nil, unreachable(a.Node, context.Cause(limit))
		}
	}
}

// change replaces the table of sessions with a copy that f has changed.
func (c *Cluster) change(f func(*sessions)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.sessions.Load()
	now := &sessions{byName: maps.Clone(old.byName), byPeer: maps.Clone(old.byPeer), changed: make(chan struct{})}
	if now.byName == nil {
		now.byName, now.byPeer = map[string]*session{}, map[*link.Peer]*session{}
	}
	f(now)
	if len(now.byName) <= maxFew {
		now.few = slices.Collect(maps.Values(now.byName))
	}
	c.sessions.Store(now)
	close(old.changed)
}

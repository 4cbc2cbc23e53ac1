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
	in    actor.Inbound
	opts  *Options
	log   *slog.Logger
	kinds *kinds
	end   *link.Endpoint

	life   context.Context // ends with Leave
	cancel context.CancelFunc
	work   group // the goroutines of requests and replies

	// sessions are those that are up. They are read without a lock: a caller that changes them,
	// under mu, replaces the table.
	sessions atomic.Pointer[sessions]
	mu       sync.Mutex

	watchers watchers
	down     downNodes
	offers   offers // what other nodes may start here
	mirrors  mirrors

	malformed atomic.Uint64 // frames that were refused
	left      sync.Once
	leaving   atomic.Bool
	leaveErr  error
}

type sessions struct {
	few     []*session // all, if they are so few that looking through them is quicker
	byName  map[string]*session
	byPeer  map[*link.Peer]*session
	changed chan struct{} // closed when there are others
}

const maxFew = 4

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

// group is a WaitGroup that takes no more when it is waited for.
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

// close waits for all goroutines, as long as ctx allows.
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

// Join connects a node with others: from then on references to their actors can be
// used. It fails with Invalid if the options contradict each other, Exists if the node
// has another transport, Unavailable if it cannot listen.
//
// Leave before the node stops. A node that has left does not join again.
func Join(node *actor.Node, o *Options) (*Cluster, error) {
	opts := o.withDefaults()
	lo, err := opts.link(node)
	if err != nil {
		return nil, err
	}
	if err := registerErrors(opts.Registry); err != nil {
		return nil, err
	}
	c := &Cluster{node: node, in: node.Inbound(), opts: opts, log: opts.Logger, kinds: newKinds(opts.Registry)}
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

// Connect waits until a node is up. Sending to one of its actors does that too. It
// fails with NotFound if nobody knows the address, Unavailable if it cannot be reached,
// Denied if one does not believe the other.
func (c *Cluster) Connect(ctx context.Context, node string) error {
	_, err := c.reach(ctx, node)
	return err
}

// Register gives a type of messages, or of what is in them, its name: all nodes
// that send or receive it must. The name crosses the wire and must not change. Fields may: see
// package binary for what may become of a type while nodes of both versions run.
func (c *Cluster) Register(name string, zero any) error {
	if err := c.kinds.codec.Register(name, zero); err != nil {
		return err
	}
	return c.announce()
}

// RegisterError gives an error value a name, so that errors.Is finds it on other
// nodes in reasons, answers and messages.
func (c *Cluster) RegisterError(name string, err error) error {
	if err := c.kinds.codec.RegisterError(name, err); err != nil {
		return err
	}
	return c.announce()
}

// announce sends all nodes the types that were registered since the last call.
func (c *Cluster) announce() error {
	fresh, err := c.kinds.update()
	for _, s := range c.sessions.Load().byName {
		s.announce(fresh)
		s.reconsider()
	}
	return err
}

// Leave reports to all nodes that this one is down, waits until all that was sent is
// acknowledged, as long as ctx allows, and closes all connections.
// It fails with Canceled if something was left unacknowledged: that has become dead letters. Leaving twice
// is allowed: the second returns when the first has.
func (c *Cluster) Leave(ctx context.Context) error {
	c.leaving.Store(true)
	c.left.Do(func() {
		if a, ok := c.opts.Resolver.(Announcer); ok && c.Addr() != "" {
			c.leaveErr = a.Withdraw(ctx, c.node.Name(), c.node.Start())
		}
		c.leaveErr = errors.Join(c.leaveErr, c.end.Close(ctx))
		c.cancel()
		c.leaveErr = errors.Join(c.leaveErr, c.work.close(ctx))
	})
	return c.leaveErr
}

// reach returns the session with a node that can be sent to.
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
	// The handler may not have seen it yet.
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

// unreachable is the error of a node that cannot be reached. It keeps the kind of
// the cause, if that says more than Unavailable.
func unreachable(node string, cause error) error {
	e := mainstem.Errorf(mainstem.KindUnavailable, "reach node "+node, "%w: %w", actor.ErrUnreachable, cause)
	if k := mainstem.KindOf(cause); k == mainstem.KindDenied || k == mainstem.KindNotFound {
		e.Kind = k
	}
	return e
}

// live returns the session with the life of a node that an address means.
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
		// The reference is newer than the session: that will end as soon as the new
		// life of the node connects.
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

// change replaces the table of sessions with what f makes of a copy.
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

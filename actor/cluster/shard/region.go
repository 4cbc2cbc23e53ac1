package shard

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/lease"
)

// Region is one node's part of a set of actors spread over the cluster. It is safe
// for concurrent use.
type Region[M any] struct {
	name      string
	node      *actor.Node
	keeper    *lease.Keeper
	shards    int
	router    actor.Ref[any]
	admission actor.Ref[M] // gives local messages a slot and sends them to the router

	ctx    context.Context // ends in Close, or with the keeper
	cancel context.CancelFunc
	done   sync.WaitGroup // the goroutines of observe and handleRequests
	once   sync.Once      // of Close
	err    error          // of Close
}

// Open starts a region. key returns the key of a message. It is called by actors of the region, must
// return the same on every node, and must not change the message. fresh makes the actor of a key, on
// the node that owns its shard; with fresh nil this node owns no shards and only sends. The type M
// must be registered with the cluster under the same name on all nodes.
//
// Open does not wait until this node owns shards. It fails with Exists if the node has a region of
// that name, and with Invalid for wrong options, a keeper of another node, or if a region of that
// name on another node has another number of shards.
func Open[M any](c Cluster, k *lease.Keeper, name string, key func(M) string, fresh func(Entity) actor.Actor[M], o *Options) (*Region[M], error) {
	opts, err := o.withDefaults(name)
	if err != nil {
		return nil, err
	}
	if key == nil {
		return nil, invalidf("region %s has no function for keys", name)
	}
	g := &router[M]{
		opts: opts, key: func(m M) int { return shardOf(key(m), opts.Shards) }, hosts: fresh != nil,
	}
	g.start = func(c *actor.Context[any], shard int, l *lease.Lease) (actor.Ref[M], error) {
		h := &host[M]{key: key, fresh: fresh, lease: l, entities: opts.Entities}
		return actor.Spawn(c, h, &actor.Options{Grace: -1})
	}
	return open(c, k, name, g)
}

// Sole is [Open] for one shard with one actor, for package singleton. fresh makes the actor as soon
// as the node owns the shard, which does not move until its owner closes the region, loses the lease
// or ends.
func Sole[M any](c Cluster, k *lease.Keeper, name string, fresh func(*lease.Lease) actor.Actor[M], o *Options) (*Region[M], error) {
	var own Options
	if o != nil {
		own = *o
	}
	own.Shards = 1
	opts, err := own.withDefaults(name)
	if err != nil {
		return nil, err
	}
	g := &router[M]{opts: opts, key: func(M) int { return 0 }, hosts: fresh != nil, sticky: true}
	g.start = func(c *actor.Context[any], _ int, l *lease.Lease) (actor.Ref[M], error) {
		var sole actor.Actor[M]
		if err := guard(func() { sole = fresh(l) }); err != nil {
			return actor.Ref[M]{}, err
		}
		return actor.Spawn(c, sole, opts.Entities)
	}
	return open(c, k, name, g)
}

// open starts the actors and goroutines of a region.
func open[M any](c Cluster, k *lease.Keeper, name string, g *router[M]) (*Region[M], error) {
	if k.Self().Name != c.Node().Name() {
		return nil, invalidf("the keeper is that of node %q: want that of %q", k.Self().Name, c.Node().Name())
	}
	if err := g.agree(k, name); err != nil {
		return nil, err
	}
	if err := register(c); err != nil {
		return nil, err
	}
	r := &Region[M]{name: name, node: c.Node(), keeper: k, shards: g.opts.Shards}
	r.ctx, r.cancel = context.WithCancel(k.Context())
	g.region, g.states = r, make([]shardState[M], g.opts.Shards)
	g.requests = make(chan leaseRequest, 2*g.opts.Shards+2)
	g.slots, g.lanes = make(chan struct{}, g.opts.Buffer), make(map[string]*lane)
	var err error
	if r.router, err = actor.Spawn(r.node, actor.Actor[any](g), &actor.Options{Name: actorPrefix + name, Grace: -1}); err != nil {
		r.cancel()
		return nil, err
	}
	if r.admission, err = actor.Spawn(r.node, actor.Func[M](g.admit), &actor.Options{Mailbox: admissionLimit, Overflow: actor.Block, Grace: -1}); err != nil {
		r.cancel()
		r.router.Stop()
		return nil, err
	}
	r.done.Go(func() { g.observe(r.ctx) })
	r.done.Go(func() { g.handleRequests(r.ctx) })
	return r, nil
}

// admit is the actor Region.admission: it waits for a slot for each local message, and sends it to
// the router. The wait ends when the node or the region does; then the message is a dead letter.
func (g *router[M]) admit(c *actor.Context[M], m M) error {
	select {
	case g.slots <- struct{}{}:
		return g.region.router.Send(c, local[M]{m})
	case <-c.Done():
	case <-g.region.ctx.Done():
	}
	g.region.node.Inbound().Undelivered(c.Self().Address(), m, 0, actor.ErrStopped)
	return nil
}

// register registers the types that routers send each other, once for each node. An idle actor of the
// name flushName marks that it was done.
func register(c Cluster) error {
	idle := actor.Func[struct{}](func(*actor.Context[struct{}], struct{}) error { return nil })
	mark, err := actor.Spawn(c.Node(), idle, &actor.Options{Name: flushName})
	if errors.Is(err, mainstem.ErrExists) {
		return nil
	}
	if err == nil {
		err = errors.Join(c.Register(flushName, flush{}), c.Register(flushDoneName, flushDone{}), c.Register(relayedName, relayed{}))
		if err != nil {
			mark.Stop()
		}
	}
	return err
}

// agree fails with Invalid if a region of that name is seen that has another number of shards.
func (g *router[M]) agree(k *lease.Keeper, name string) error {
	for _, h := range k.Holders(presence(name)) {
		if h.Value != strconv.Itoa(g.opts.Shards) {
			return invalidf("region %s has %s shards on node %s: Options.Shards is %d here", name, h.Value, h.Node, g.opts.Shards)
		}
	}
	return nil
}

// Ref returns a reference to the actors of all keys: each message goes to the actor of its own key,
// on whatever node, and waits while the shard of the key moves. It can be sent to and asked; a
// monitor of it reports the end of the region on this node. Send waits, as its context allows,
// while [Options.Buffer] messages of this node, and 1,024 more in a mailbox, have not been sent to
// other nodes. It fails with Closed after Close.
func (r *Region[M]) Ref() actor.Ref[M] { return r.admission }

// Shard returns the number of the shard of a key.
func (r *Region[M]) Shard(key string) int { return shardOf(key, r.shards) }

// Owner returns the node that owns a shard and the epoch of its lease, as far as the keeper of this
// node has seen; false if none does.
func (r *Region[M]) Owner(shard int) (node string, epoch uint64, ok bool) {
	h, ok := r.keeper.Holder(shardKey(r.name, shard))
	return h.Node, h.Epoch, ok
}

// Nodes returns the nodes whose regions of this name take shards, as far as the keeper of this node
// has seen.
func (r *Region[M]) Nodes() []string { return participants(r.keeper, r.name) }

func participants(k *lease.Keeper, name string) []string {
	var nodes []string
	for _, h := range k.Holders(presence(name)) {
		nodes = append(nodes, h.Node)
	}
	return nodes
}

// Close ends the region: its actors handle the messages that they have and end, their shards go to
// other nodes, and queued messages, and those that come within [Options.Linger], are forwarded. It
// fails with Canceled when ctx ends first; then the actors are stopped, and the leases of the region
// are released when they have ended or were left behind after their Grace (the lease then fences
// what they still write). A second Close waits for the first and returns the same.
func (r *Region[M]) Close(ctx context.Context) error {
	r.once.Do(func() {
		r.admission.Drain()
		_, _ = actor.Wait(ctx, r.admission) // Ask fails if it takes too long
		_, r.err = actor.Ask(ctx, r.router, func(p actor.Reply[struct{}]) any { return leave{p} })
		if errors.Is(r.err, mainstem.ErrClosed) || errors.Is(r.err, actor.ErrNoReply) {
			r.err = nil // the node was stopped before
		}
		r.cancel()
		r.done.Wait()
		r.router.Drain()
		if _, err := actor.Wait(ctx, r.router); r.err == nil {
			r.err = err
		}
	})
	return r.err
}

// presence returns the prefix of the keys of presence leases. After it comes the name of the node;
// the value is the number of shards.
func presence(name string) string { return "region/" + name + "/" }

// shardKey returns the key of the lease of a shard.
func shardKey(name string, shard int) string { return "shard/" + name + "/" + strconv.Itoa(shard) }

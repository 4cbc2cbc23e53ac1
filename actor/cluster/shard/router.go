package shard

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/lease"
)

// router is the actor of a region: it keeps the state of each shard, and passes messages on.
//
// It gets local[M] from senders of this node, after admission, M and flush from the routers of
// other nodes, and refresh, outcomes of requests and leave from its own region. It never waits:
// messages that other nodes are slow to take wait in lanes. The number of local messages that
// are admitted is bounded by slots, so that their senders wait.
type router[M any] struct {
	region   *Region[M]
	opts     Options
	key      func(M) int // the shard of a message
	start    func(c *actor.Context[any], shard int, l *lease.Lease) (actor.Ref[M], error)
	hosts    bool // this node may own shards
	sticky   bool // a shard stays where it is while its owner lives
	requests chan leaseRequest

	slots   chan struct{} // taken by local messages on their way
	pending atomic.Bool   // a refresh is in the mailbox

	states     []shardState[M] // by shard
	nodes      []string        // who shares the shards
	best       []string        // of those, which is to own each shard
	lanes      map[string]actor.Ref[any]
	announcing bool // a request is under way that says whether this node is among them
	leaving    *leave
	lingering  bool // all is given away; what still comes by the old way is passed on
}

// forwardGen is what a shardState has for messages that were forwarded so often (their generation):
// those of this node never.
//
// To keep their order, those of generation n wait until all that was passed on
// in generation n before, by ways that have changed since, has arrived. That is found out by
// flushes of generation n+1, which wait only for later ones: so no two wait for each other.
type forwardGen struct {
	queue   []any
	used    bool    // some have gone to the present owner
	flushes []*wait // what went to owners before may still be on its way
}

// local is a message from a sender of this node, which has a slot.
type local[M any] struct{ m M }

// envelope is what a lane carries to another node.
type envelope struct {
	m    any
	slot bool // it has one
}

// relayed is a message that another router has passed on, with its generation.
// One that comes straight from its sender's node, comes as it is.
type relayed struct {
	Gen int `bin:"1"`
	M   any `bin:"2"`
}

// maxGen is how often a message may be passed on in its order: its shard moved as
// often while it was under way.
const maxGen = 8

// flush goes the way that messages for a shard go, and is answered where they end:
// then what went before it has arrived.
type flush struct {
	Shard int                    `bin:"1"`
	Gen   int                    `bin:"2"` // of the messages that it goes behind
	Reply actor.Reply[flushDone] `bin:"3"`
}

type flushDone struct {
	Epoch uint64 `bin:"1"`
}

// The names of what routers send each other.
const (
	flushName     = "mainstem.shard.flush"
	flushDoneName = "mainstem.shard.flushed"
	relayedName   = "mainstem.shard.relayed"
)

type (
	refresh struct{} // members, owners or the session have changed
	leave   struct{ done actor.Reply[struct{}] }
)

// stage is where a shard is in its life on this node.
type stage uint8

const (
	away     stage = iota // this node does not own the shard
	asking                // its lease is being acquired
	active                // its actors are here
	draining              // they handle what they have, and end
	giving                // its lease is being released
)

// shardState is the state of one shard, as this node sees it.
type shardState[M any] struct {
	stage   stage
	lease   *lease.Lease
	host    actor.Ref[M]
	unwatch func() // ends the monitor of host
	past    uint64 // the epoch in which this node last owned it

	owner string // where messages go; "" nobody, or this node
	epoch uint64 // of that owner
	gens  [maxGen + 1]forwardGen

	failures int // in a row
	retry    *actor.Timer
}

// Receive handles whatever comes to the region.
func (g *router[M]) Receive(c *actor.Context[any], m any) error {
	switch m := m.(type) {
	case local[M]:
		g.take(c, g.key(m.m), 0, m.m)
	case flush:
		if m.Shard >= 0 && m.Shard < len(g.states) {
			g.take(c, m.Shard, m.Gen, m)
		}
	case relayed:
		if v, ok := m.M.(M); ok {
			g.take(c, g.key(v), m.Gen, v)
		}
	case refresh:
		g.pending.Store(false)
		g.refresh(c)
	case outcome:
		return g.outcome(c, m)
	case leave:
		g.leaving = &m
		g.refresh(c)
	case M: // last, as M may be an interface
		g.take(c, g.key(m), 1, m)
	}
	return nil
}

// Start is called before anything else.
func (g *router[M]) Start(c *actor.Context[any]) error {
	g.refresh(c)
	return nil
}

// Stop makes dead letters of what still waits.
func (g *router[M]) Stop(c *actor.Context[any], _ error) {
	for i := range g.states {
		for h := range g.states[i].gens {
			for _, m := range g.states[i].gens[h].queue {
				g.drop(c, m, actor.ErrStopped)
			}
		}
	}
}

// take passes on a message of a generation.
func (g *router[M]) take(c *actor.Context[any], shard, gen int, m any) {
	p := &g.states[shard]
	gen = min(max(gen, 0), maxGen)
	h := &p.gens[gen]
	switch {
	case len(h.flushes) > 0 || len(h.queue) > 0:
	case p.stage == active:
		g.deliver(c, p, m)
		g.free(gen)
		return
	case p.owner != "" && p.stage == away:
		g.forward(c, p, gen, envelope{m, gen == 0})
		return
	}
	if len(h.queue) >= g.opts.Buffer {
		g.drop(c, m, actor.ErrMailboxFull)
	} else {
		h.queue = append(h.queue, m)
	}
	g.free(gen)
}

// free gives back the slot of a local message: one of generation 0.
func (g *router[M]) free(gen int) {
	if gen == 0 {
		<-g.slots
	}
}

func (g *router[M]) drop(c *actor.Context[any], m any, reason error) {
	if f, ok := m.(flush); ok {
		_ = f.Reply.Fail(reason)
		return
	}
	c.Node().Inbound().Undelivered(c.Self().Address(), m, 0, reason)
}

// deliver hands a message to the shard's host on this node.
func (g *router[M]) deliver(c *actor.Context[any], p *shardState[M], m any) {
	switch m := m.(type) {
	case flush:
		_ = m.Reply.Send(flushDone{Epoch: p.lease.Epoch()})
	case M:
		_ = p.host.Send(c, m) // what it cannot take is a dead letter
	}
}

// forward sends a message of a generation to the router of the shard's owner.
func (g *router[M]) forward(c *actor.Context[any], p *shardState[M], gen int, m envelope) {
	p.gens[gen].used = true
	next := min(gen+1, maxGen)
	lane, err := g.lane(c, p.owner)
	if err == nil {
		err = lane.Send(c, envelope{stamp(m.m, next), m.slot})
	}
	if err != nil {
		g.drop(c, m.m, err)
		if m.slot {
			g.free(0)
		}
	}
}

// stamp returns m as it is sent as one of a generation.
func stamp(m any, gen int) any {
	switch f, ok := m.(flush); {
	case ok:
		f.Gen = gen
		return f
	case gen > 1:
		return relayed{gen, m}
	}
	return m
}

// lane returns the actor that carries what goes to another node. It may wait for that
// node, as this one must not.
func (g *router[M]) lane(c *actor.Context[any], node string) (actor.Ref[any], error) {
	if l, ok := g.lanes[node]; ok {
		return l, nil
	}
	to, err := actor.At[any](c.Node(), actor.Address{Node: node, Name: actorPrefix + g.region.name})
	if err != nil {
		return to, err
	}
	l, err := actor.Spawn(c, actor.Func[any](func(c *actor.Context[any], m any) error {
		switch m := m.(type) {
		case envelope:
			_ = to.Send(c, m.m) // what cannot be sent is a dead letter
			if m.slot {
				g.free(0)
			}
		case flush:
			if err := to.Send(c, m); err != nil {
				_ = m.Reply.Fail(err)
			}
		}
		return nil
	}), nil)
	if err == nil {
		g.lanes[node] = l
	}
	return l, err
}

// closeLanes ends the lanes to nodes that are no members any more, after what they have.
func (g *router[M]) closeLanes() {
	for node, l := range g.lanes {
		if _, lives := g.region.keeper.Member(node); !lives {
			l.Drain()
			delete(g.lanes, node)
		}
	}
}

// release sends what waits for a shard whose way is known.
func (g *router[M]) release(c *actor.Context[any], p *shardState[M]) {
	if p.stage != active && (p.stage != away || p.owner == "") {
		return
	}
	for gen := maxGen; gen >= 0; gen-- {
		h := &p.gens[gen]
		if len(h.flushes) > 0 {
			continue
		}
		for _, m := range h.queue {
			if p.stage == active {
				g.deliver(c, p, m)
			} else {
				g.forward(c, p, gen, envelope{m, false})
			}
		}
		h.queue = nil
	}
}

// refresh takes in what the keeper sees now.
func (g *router[M]) refresh(c *actor.Context[any]) {
	if nodes := participants(g.region.keeper, g.region.name); g.best == nil || !slices.Equal(nodes, g.nodes) {
		g.nodes, g.best = nodes, winners(nodes, g.region.name, len(g.states))
	}
	g.closeLanes()
	g.announce()
	for i := range g.states {
		g.refreshShard(c, i)
	}
	g.finish(c)
}

// announce requests the lease that shows to other nodes that this one takes shards, or its
// release.
func (g *router[M]) announce() {
	want := g.hosts && g.leaving == nil
	if want != g.shares() && !g.announcing {
		g.announcing = true
		g.requests <- leaseRequest{shard: present, acquire: want}
	}
}

// shares reports whether this node is seen among those that share the shards.
func (g *router[M]) shares() bool { return slices.Contains(g.nodes, g.region.node.Name()) }

// refreshShard brings the state of one shard in line with its lease.
func (g *router[M]) refreshShard(c *actor.Context[any], i int) {
	p := &g.states[i]
	k, self := g.region.keeper, g.region.node.Name()
	h, owned := k.Holder(shardKey(g.region.name, i))
	if owned && h.Node != self && h.Epoch > max(p.past, p.epoch) {
		p.epoch = h.Epoch
		g.reroute(c, i, h.Node)
	}
	if p.owner != "" {
		if _, lives := k.Member(p.owner); !lives {
			p.owner = "" // what comes waits for the next
			for h := range p.gens {
				p.gens[h].used = false
			}
		}
	}
	g.giveUp(p)
	best := g.best[i]
	switch p.stage {
	case away:
		if (!owned || h.Node == self) && best == self && g.hosts && g.leaving == nil && p.retry == nil {
			p.stage = asking
			g.requests <- leaseRequest{shard: i, acquire: true}
		}
	case active:
		switch {
		case !p.lease.Valid():
			g.retreat(c, i)
		case g.leaving != nil || best != self && best != "" && !g.sticky:
			p.stage = draining
			p.host.Drain()
		}
	case draining:
		if !p.lease.Valid() {
			p.host.Stop()
		}
	}
	g.release(c, p)
}

// retreat stops the actors of a shard whose lease is over: another may own it soon.
func (g *router[M]) retreat(c *actor.Context[any], i int) {
	p := &g.states[i]
	p.stage = draining
	p.host.Stop()
}

// finish answers leave when this region has given everything away.
func (g *router[M]) finish(c *actor.Context[any]) {
	if g.leaving == nil || g.announcing || g.shares() {
		return
	}
	for i := range g.states {
		p := &g.states[i]
		if p.stage != away || p.waiting(len(g.nodes) > 0) {
			return
		}
	}
	if g.lingering {
		return
	}
	g.lingering = true
	linger := g.opts.Linger
	if len(g.nodes) == 0 {
		linger = 0 // there is nobody to pass anything on to
	}
	c.After(linger, func() error { return g.leaving.done.Send(struct{}{}) })
}

// waiting reports whether a shard waits for flushes, or, if there are others, has messages for them.
func (p *shardState[M]) waiting(others bool) bool {
	for i := range p.gens {
		if len(p.gens[i].flushes) > 0 || others && len(p.gens[i].queue) > 0 {
			return true
		}
	}
	return false
}

var errLost = errors.New("the lease was lost meanwhile")

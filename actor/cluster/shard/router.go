package shard

import (
	"reflect"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/lease"
)

// router is the actor of a region on one node. It keeps the state of each shard as this node sees it,
// and sends each message on: to the host of its shard if this node owns the shard, to the router of
// the owner if another node does, or into a queue while there is no owner or the order demands it.
//
// # Messages
//
// From senders of this node, through Region.admission: local[M]. From routers of other nodes: M,
// relayed and flush. From its own region: refresh when members or leases have changed, outcome when a
// lease request is done, and leave from Close.
//
// # Flow
//
// The router never waits. Commits that acquire and release leases are done by the goroutine
// handleRequests. Messages to a node wait in its lane, a child actor that may wait for credit. A
// local message takes one of Options.Buffer slots before it is sent to the router, and has it until
// it is handed to a host, queued, dropped, or sent by a lane. So the senders of this node wait when
// lanes are slow. Forwarded messages have no slots: they wait in their queue while Options.Buffer
// messages without a slot are in the lane.
//
// # Life of a shard on a node
//
//	away -> asking -> active -> draining -> giving -> away
//
//	away -> asking      nobody has the lease, and this node is the best
//	asking -> active    the lease is acquired and the host started
//	asking -> giving    it is acquired, but is over already or the host did not start
//	asking -> away      it could not be acquired: another try follows after a pause
//	active -> draining  the region is closed or another node is the best (Drain),
//	                    or the lease is over (Stop)
//	active -> giving    the host has ended by itself: after a crash, the next try follows
//	                    after a pause
//	draining -> giving  the host has ended
//	giving -> away      the lease is released, or is over
//
// A lease is released only after the host has ended, so that the next owner's actors start later.
//
// # Order
//
// The generation of a message is how often it was forwarded: 0 for those of this node, 1 for M from
// another router, more for relayed ones. When the owner of a shard changes, messages
// forwarded to the former owner may be slower than new ones to the next owner. So reroute sends a
// flush behind them, to the former owner. It goes wherever those messages go, through queues and
// further owners, and the router that has the shard answers it. Until the answer has come, messages
// of that generation wait in their queue.
//
// Invariant: a message of generation n waits only for flushes of generation n+1, and those only for
// flushes of higher generations. So no two nodes wait for each other.
//
// A flush that fails, as when a buffer overflows, its way takes longer than flushPatience, or the
// former owner is gone, ends the wait all the same. Messages of generation maxGen do not wait.
type router[M any] struct {
	region *Region[M]
	opts   Options
	// key returns the shard of a message, start starts the host of a shard.
	key    func(M) int
	start  func(c *actor.Context[any], shard int, l *lease.Lease) (actor.Ref[M], error)
	hosts  bool // this node may own shards
	sticky bool // a shard does not move while its owner lives
	// requests goes to handleRequests. It has room for one request per shard and for the presence.
	requests chan leaseRequest

	slots   chan struct{} // one element for each local message that has a slot
	pending atomic.Bool   // a refresh is in the mailbox

	// The rest is used only in the turn of the actor.
	states     []shardState[M]  // by shard
	nodes      []string         // those whose regions take shards
	best       []string         // by shard: which of nodes is to own it, "" if there are none
	lanes      map[string]*lane // by node
	announcing bool             // a request for the presence of this node is under way
	leaving    *leave           // Close was called
	lingering  bool             // all is given away; late messages are forwarded
}

// forwardGen is the state of a shard for the messages of one generation.
type forwardGen struct {
	queue   []any   // messages and flushes, at most Options.Buffer
	used    bool    // some were forwarded to the present owner
	flushes []*wait // not answered yet; while there are any, messages go to the queue
}

// local is a message of a sender of this node. It has a slot.
type local[M any] struct{ m M }

// envelope is a message for a lane.
type envelope struct {
	m    any
	slot bool // m has a slot, which the lane frees; else it counts in lane.waiting
}

// relayed is a message of generation Gen, 2 or more. One of generation 1 is sent as it is.
type relayed struct {
	Gen int `bin:"1"`
	M   any `bin:"2"`
}

// maxGen is the highest generation. Messages that are forwarded more often stay in it, without order.
const maxGen = 8

// flush follows the messages of a generation for a shard, and is answered by the router that owns the
// shard: then the messages before it have arrived.
type flush struct {
	Shard int                    `bin:"1"`
	Gen   int                    `bin:"2"` // generation of the messages that it follows, at its receiver
	Reply actor.Reply[flushDone] `bin:"3"`
}

// flushDone is the answer to a flush.
type flushDone struct {
	Epoch uint64 `bin:"1"` // of the owner that answers
}

// The names of the types that routers send each other. They cross the wire.
const (
	flushName     = "mainstem.shard.flush"
	flushDoneName = "mainstem.shard.flushed"
	relayedName   = "mainstem.shard.relayed"
)

type (
	refresh struct{}                             // members, owners or the session have changed
	leave   struct{ done actor.Reply[struct{}] } // give all shards away, then answer
)

// stage is the stage of a shard in its life on this node, see router.
type stage uint8

const (
	away     stage = iota // this node does not own the shard
	asking                // a request to acquire its lease is under way
	active                // its host runs here
	draining              // its host is ending
	giving                // a request to release its lease is under way
)

// shardState is the state of one shard, as this node sees it.
type shardState[M any] struct {
	stage stage
	lease *lease.Lease // from active to giving
	host  actor.Ref[M] // in active and draining
	past  uint64       // the epoch of the last lease of this node, 0 if it had none

	owner string                 // another node, to which messages are forwarded; "": none known, or this node
	epoch uint64                 // the highest epoch of another owner that was seen
	gens  [maxGen + 1]forwardGen // by generation

	failures int          // in a row, of acquiring the lease or starting and running the host
	retry    *actor.Timer // not nil: this node does not ask for the lease before it fires
}

// Receive handles a message of the router, see there.
func (g *router[M]) Receive(c *actor.Context[any], m any) error {
	switch m := m.(type) {
	case local[M]:
		if shard, ok := g.shardOf(c, m.m); ok {
			g.take(c, shard, 0, m.m)
		} else {
			g.free(0)
		}
	case flush:
		if m.Shard < 0 || m.Shard >= len(g.states) {
			g.drop(c, m, invalidf("a flush of shard %d, of which there are %d: Options.Shards must be the same on all nodes", m.Shard, len(g.states)))
			return nil
		}
		g.take(c, m.Shard, m.Gen, m)
	case relayed:
		v, ok := m.M.(M)
		if !ok {
			g.drop(c, m.M, invalidf("region %s takes messages of type %s, not %T", g.region.name, reflect.TypeFor[M](), m.M))
			return nil
		}
		if shard, ok := g.shardOf(c, v); ok {
			g.take(c, shard, m.Gen, v)
		}
	case refresh:
		g.pending.Store(false)
		g.refresh(c)
	case outcome:
		return g.outcome(c, m)
	case leave:
		g.leaving = &m
		g.refresh(c)
	case M: // after the others, as M may be an interface
		if shard, ok := g.shardOf(c, m); ok {
			g.take(c, shard, 1, m)
		}
	default:
		g.drop(c, m, invalidf("region %s takes messages of type %s, not %T", g.region.name, reflect.TypeFor[M](), m))
	}
	return nil
}

// shardOf returns the shard of a message. If the function for keys panics, the message is a dead
// letter.
func (g *router[M]) shardOf(c *actor.Context[any], m M) (shard int, ok bool) {
	if err := guard(func() { shard = g.key(m) }); err != nil {
		g.drop(c, m, err)
		return 0, false
	}
	return shard, true
}

// guard calls f and returns its panic as a *actor.PanicError.
func guard(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &actor.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

// Start takes in the present members and leases.
func (g *router[M]) Start(c *actor.Context[any]) error {
	g.refresh(c)
	return nil
}

// Stop makes dead letters of the messages in queues. It ends the goroutines of the region and
// releases the leases that are left, as after a Close that was canceled. The actors have ended, or
// were left behind after their Grace: without the lease, their fenced writes fail.
func (g *router[M]) Stop(c *actor.Context[any], _ error) {
	g.region.cancel()
	for i := range g.states {
		if l := g.states[i].lease; l != nil {
			_ = l.Release(g.region.ctx) // which has ended: the session of the keeper deletes the entry
		}
		for h := range g.states[i].gens {
			for _, m := range g.states[i].gens[h].queue {
				g.drop(c, m, actor.ErrStopped)
			}
		}
	}
}

// take delivers, forwards or queues a message, or a flush, of a generation. If the queue is full it
// is a dead letter.
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
	case p.owner != "" && p.stage == away && g.room(p.owner, gen):
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

// free returns the slot of a message of generation 0; others have none.
func (g *router[M]) free(gen int) {
	if gen == 0 {
		<-g.slots
	}
}

// drop makes a message a dead letter, and fails a flush.
func (g *router[M]) drop(c *actor.Context[any], m any, reason error) {
	if f, ok := m.(flush); ok {
		_ = f.Reply.Fail(reason)
		return
	}
	c.Node().Inbound().Undelivered(c.Self().Address(), m, 0, reason)
}

// deliver sends a message to the host of the shard on this node, and answers a flush.
func (g *router[M]) deliver(c *actor.Context[any], p *shardState[M], m any) {
	switch m := m.(type) {
	case flush:
		_ = m.Reply.Send(flushDone{Epoch: p.lease.Epoch()})
	case M:
		_ = p.host.Send(c, m) // if that fails, m is a dead letter already
	}
}

// forward sends a message of a generation to the router of the shard's owner, as one of the next.
func (g *router[M]) forward(c *actor.Context[any], p *shardState[M], gen int, m envelope) {
	p.gens[gen].used = true
	next := min(gen+1, maxGen)
	l, err := g.lane(c, p.owner)
	if err == nil {
		err = l.send(c, envelope{stamp(m.m, next), m.slot})
	}
	if err != nil {
		g.drop(c, m.m, err)
		if m.slot {
			g.free(0)
		}
	}
}

// stamp returns the form in which m is sent to another router in a generation.
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

// release delivers or forwards the queued messages of a shard whose owner is known, but for
// generations that wait for flushes, or for room in the lane to the owner. Higher generations go
// first: of the messages of one sender, those that were forwarded more often were sent earlier.
func (g *router[M]) release(c *actor.Context[any], p *shardState[M]) {
	if p.stage != active && (p.stage != away || p.owner == "") {
		return
	}
	for gen := maxGen; gen >= 0; gen-- {
		h := &p.gens[gen]
		if len(h.flushes) > 0 {
			continue
		}
		n := 0
		for ; n < len(h.queue) && (p.stage == active || g.room(p.owner, gen)); n++ {
			if p.stage == active {
				g.deliver(c, p, h.queue[n])
			} else {
				g.forward(c, p, gen, envelope{h.queue[n], false})
			}
		}
		if n == len(h.queue) {
			h.queue = nil
		} else if n > 0 {
			h.queue = slices.Clone(h.queue[n:])
		}
	}
}

// refresh takes in the members and leases that the keeper sees now.
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

// announce requests the presence lease, by which other nodes see that this one takes shards, or its
// release, unless that is done or under way.
func (g *router[M]) announce() {
	want := g.hosts && g.leaving == nil
	if want != g.shares() && !g.announcing {
		g.announcing = true
		g.requests <- leaseRequest{shard: present, acquire: want}
	}
}

// shares reports whether the presence lease of this node has been seen.
func (g *router[M]) shares() bool { return slices.Contains(g.nodes, g.region.node.Name()) }

// refreshShard takes in the lease of one shard:
//
//  1. If another node owns it with an epoch not seen yet, messages go there from now on (reroute).
//  2. If the owner is no longer a member, messages wait for the next one.
//  3. Flushes by nodes that are no longer members are given up.
//  4. The stage changes if it has to, see router.
//  5. Queued messages whose way is known are sent.
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
			p.owner = ""
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

// retreat stops the actors of a shard whose lease is over, without draining them: another node may
// own it soon.
func (g *router[M]) retreat(c *actor.Context[any], i int) {
	p := &g.states[i]
	p.stage = draining
	p.host.Stop()
}

// finish answers leave, after Options.Linger, when this region has no presence, no shard, and nothing
// that waits and could be forwarded.
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
		linger = 0 // there is no node to forward to
	}
	c.After(linger, func() error { return g.leaving.done.Send(struct{}{}) })
}

// waiting reports whether a shard waits for flushes or, if other nodes take shards, has messages in
// its queues.
func (p *shardState[M]) waiting(others bool) bool {
	for i := range p.gens {
		if len(p.gens[i].flushes) > 0 || others && len(p.gens[i].queue) > 0 {
			return true
		}
	}
	return false
}

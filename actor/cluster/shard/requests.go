package shard

import (
	"context"
	"errors"
	"strconv"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/lease"
)

// leaseRequest asks handleRequests to acquire or release a lease, a commit to the log. The router
// does not wait for it, and gets an outcome later.
type leaseRequest struct {
	shard   int          // or present
	acquire bool         // else release
	lease   *lease.Lease // of a shard: the one to release, or in the outcome the one that was acquired
}

var errLost = errors.New("the lease was lost meanwhile")

// present stands for the presence lease in place of a shard.
const present = -1

// outcome is the result of a request.
type outcome struct {
	leaseRequest
	err error
}

// observe is a goroutine of the region: it sends the router a refresh after each change that the
// keeper sees, unless one is in its mailbox already. When the session of the keeper is over, the
// refresh goes ahead of other messages.
func (g *router[M]) observe(ctx context.Context) {
	k := g.region.keeper
	for {
		changed := k.Changed()
		var over <-chan struct{}
		if s, err := k.Session(ctx); err == nil {
			over = s.Done()
		}
		if g.pending.CompareAndSwap(false, true) && g.region.router.Send(ctx, refresh{}) != nil {
			return
		}
		select {
		case <-changed:
		case <-over:
			// Ahead of messages, which must not be handled under leases that are over.
			if g.region.router.SendPriority(ctx, actor.Urgent, refresh{}) != nil {
				return
			}
			if _, err := k.Session(ctx); err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// handleRequests is a goroutine of the region: it carries out lease requests, one after another, and
// sends the router their outcomes.
func (g *router[M]) handleRequests(ctx context.Context) {
	var here *lease.Lease // the presence lease, nil: none
	defer func() {
		if here != nil {
			_ = here.Release(ctx) // the session of the keeper deletes the entry, if ctx has ended
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-g.requests:
			var err error
			if q.shard == present {
				here, err = g.handlePresence(ctx, q, here)
			} else {
				q, err = g.handleShard(ctx, q)
			}
			if g.region.router.Send(ctx, outcome{q, err}) != nil {
				return
			}
		}
	}
}

// handlePresence acquires or releases the presence lease, and returns the one that there is then.
func (g *router[M]) handlePresence(ctx context.Context, q leaseRequest, here *lease.Lease) (*lease.Lease, error) {
	if !q.acquire {
		if here == nil {
			return nil, nil
		}
		return nil, here.Release(ctx)
	}
	if here != nil && here.Valid() {
		return here, nil
	}
	return g.region.keeper.Acquire(ctx, presence(g.region.name)+g.region.node.Name(), strconv.Itoa(g.opts.Shards))
}

// handleShard acquires or releases the lease of a shard.
func (g *router[M]) handleShard(ctx context.Context, q leaseRequest) (leaseRequest, error) {
	if !q.acquire {
		return q, q.lease.Release(ctx)
	}
	l, err := g.region.keeper.Acquire(ctx, shardKey(g.region.name, q.shard), "")
	q.lease = l
	return q, err
}

// outcome takes in the result of a request. A release that failed counts as done: the session of the
// keeper goes on trying, and the lease is over for this node.
func (g *router[M]) outcome(c *actor.Context[any], o outcome) error {
	if o.shard == present {
		if o.err != nil {
			g.opts.Logger.Warn("cannot say whether this node takes shards", "region", g.region.name, "error", o.err)
		}
		g.announcing = false
		if want := g.hosts && g.leaving == nil; want != g.shares() { // it is not seen yet, or failed
			c.After(retryPolicy.First, func() error { g.refresh(c); return nil })
		}
		g.finish(c)
		return nil
	}
	p := &g.states[o.shard]
	if o.acquire {
		g.acquired(c, p, o)
	} else {
		p.stage, p.lease = away, nil
	}
	g.refreshShard(c, o.shard)
	g.finish(c)
	return nil
}

// acquired takes in the result of acquiring a shard: it starts the host. Messages that were forwarded
// to the former owner are flushed first (reroute).
func (g *router[M]) acquired(c *actor.Context[any], p *shardState[M], o outcome) {
	p.stage = away
	if o.err == nil {
		p.past, p.lease = o.lease.Epoch(), o.lease
		g.reroute(c, o.shard, "")
		if o.err = g.begin(c, p, o.shard); o.err == nil {
			p.stage = active
			return
		}
		g.opts.Logger.Warn("cannot start the actors of a shard", "region", g.region.name, "shard", o.shard, "error", o.err)
		p.stage = giving
		g.requests <- leaseRequest{shard: o.shard, lease: o.lease}
	}
	if errors.Is(o.err, lease.ErrHeld) || errors.Is(o.err, lease.ErrLost) {
		p.failures = 0 // another node owns it, or there is no session: the view of this node is behind
	}
	g.fail(c, p, o.shard)
}

// fail counts a failure and starts the timer of the next try.
func (g *router[M]) fail(c *actor.Context[any], p *shardState[M], shard int) {
	p.retry = c.After(retryPolicy.Delay(p.failures+1), func() error {
		p.retry = nil
		g.refreshShard(c, shard)
		return nil
	})
	p.failures++
}

// begin starts the host of a shard, and monitors it.
func (g *router[M]) begin(c *actor.Context[any], p *shardState[M], shard int) error {
	if !p.lease.Valid() {
		return errLost
	}
	var err error
	if p.host, err = g.start(c, shard, p.lease); err != nil {
		return err
	}
	c.Monitor(p.host, func(d actor.Down) error { return g.ended(c, shard, d.Reason) })
	return nil
}

// ended is called when the host of a shard has ended. It requests the release of the lease.
func (g *router[M]) ended(c *actor.Context[any], shard int, reason error) error {
	p := &g.states[shard]
	if actor.IsCrash(reason) && p.stage == active {
		g.opts.Logger.Warn("the actors of a shard have failed", "region", g.region.name, "shard", shard, "reason", reason)
		g.fail(c, p, shard)
	} else {
		p.failures = 0
	}
	p.host, p.stage = actor.Ref[M]{}, giving
	g.requests <- leaseRequest{shard: shard, lease: p.lease}
	return nil
}

package shard

import (
	"context"
	"sync/atomic"

	"github.com/mainstemdev/mainstem/actor"
)

// lane is a child actor of the router that sends messages to the router of another node, in order.
// Unlike the router it may wait for that node. Its mailbox is not limited: slots limit the local
// messages in it, and room the others.
type lane struct {
	to      actor.Ref[any]
	waiting atomic.Int64 // messages without a slot that it was sent and is not done with
}

// send sends the lane a message.
func (l *lane) send(ctx context.Context, m envelope) error {
	if !m.slot {
		l.waiting.Add(1)
	}
	err := l.to.Send(ctx, m)
	if err != nil && !m.slot {
		l.waiting.Add(-1)
	}
	return err
}

// lane returns the lane to a node, which it makes if there is none.
func (g *router[M]) lane(c *actor.Context[any], node string) (*lane, error) {
	if l, ok := g.lanes[node]; ok {
		return l, nil
	}
	far, err := actor.At[any](c.Node(), actor.Address{Node: node, Name: actorPrefix + g.region.name})
	if err != nil {
		return nil, err
	}
	l := new(lane)
	l.to, err = actor.Spawn(c, actor.Func[any](func(c *actor.Context[any], m any) error {
		switch m := m.(type) {
		case envelope:
			_ = far.Send(c, m.m) // if that fails, it is a dead letter already
			if m.slot {
				g.free(0)
			} else if l.waiting.Add(-1) == int64(g.opts.Buffer/2) && g.pending.CompareAndSwap(false, true) {
				_ = g.region.router.Send(c, refresh{}) // it releases what waits for room
			}
		case flush:
			if err := far.Send(c, m); err != nil {
				_ = m.Reply.Fail(err)
			}
		}
		return nil
	}), nil)
	if err != nil {
		return nil, err
	}
	g.lanes[node] = l
	return l, nil
}

// room reports whether the lane to a node takes another message of a generation. It always takes those
// of this node's senders, and forwarded ones while fewer than Options.Buffer messages without a slot
// are in it. When half as many are left, the lane sends the router a refresh.
func (g *router[M]) room(node string, gen int) bool {
	l := g.lanes[node]
	return gen == 0 || l == nil || l.waiting.Load() < int64(g.opts.Buffer)
}

// closeLanes ends the lanes to nodes that are no longer members, after the messages in them.
func (g *router[M]) closeLanes() {
	for node, l := range g.lanes {
		if _, lives := g.region.keeper.Member(node); !lives {
			l.to.Drain()
			delete(g.lanes, node)
		}
	}
}

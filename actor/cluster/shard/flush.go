package shard

import (
	"slices"

	"github.com/mainstemdev/mainstem/actor"
)

// reroute sends messages to a shard's new owner, "" for this node, once all that were sent to
// the former owner have arrived. It also waits if both are the same node, as another may have
// owned the shard in between.
func (g *router[M]) reroute(c *actor.Context[any], i int, node string) {
	p := &g.states[i]
	former := p.owner
	p.owner = node
	for gen := range p.gens {
		h := &p.gens[gen]
		if h.used && former != "" && gen < maxGen {
			g.flush(c, i, gen, former)
		}
		h.used = false
	}
}

// wait is a flush that is under way.
type wait struct {
	former string // the owner that it goes by
	cancel func()
}

// flush lets messages of a generation wait until the way by a former
// owner is empty.
func (g *router[M]) flush(c *actor.Context[any], i, gen int, former string) {
	p := &g.states[i]
	to, err := g.lane(c, former) // behind what went there before
	if err != nil {
		return
	}
	h := &p.gens[gen]
	w := &wait{former: former}
	h.flushes = append(h.flushes, w)
	ask := func(r actor.Reply[flushDone]) any { return flush{i, gen + 1, r} }
	w.cancel = actor.AskThen(c, to, flushPatience, ask, func(flushDone, error) error {
		h.flushed(w)
		g.release(c, p)
		g.finish(c)
		return nil
	})
}

// flushed forgets a flush that is over.
func (h *forwardGen) flushed(w *wait) {
	h.flushes = slices.DeleteFunc(h.flushes, func(o *wait) bool { return o == w })
}

// giveUp forgets flushes by nodes that are gone: what they had is gone with them.
func (g *router[M]) giveUp(p *shardState[M]) {
	for i := range p.gens {
		h := &p.gens[i]
		for _, w := range slices.Clone(h.flushes) {
			if _, lives := g.region.keeper.Member(w.former); !lives {
				w.cancel()
				h.flushed(w)
			}
		}
	}
}

package shard

import (
	"slices"

	"github.com/mainstemdev/mainstem/actor"
)

// reroute makes node the owner of a shard, "" for this node. For each generation of which messages
// went to the former owner, it sends a flush there, and the next messages wait for its answer. It
// also does so if both owners are the same node, as another may have owned the shard in between.
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

// wait is a flush that is not answered yet.
type wait struct {
	former string // the owner that it was sent to
	cancel func() // forgets the answer
}

// flush sends a flush to a former owner, behind the messages of a generation, and makes further
// messages of the generation wait until it is answered, fails, or flushPatience is over.
func (g *router[M]) flush(c *actor.Context[any], i, gen int, former string) {
	p := &g.states[i]
	l, err := g.lane(c, former) // behind what went there before
	if err != nil {
		return
	}
	h := &p.gens[gen]
	w := &wait{former: former}
	h.flushes = append(h.flushes, w)
	ask := func(r actor.Reply[flushDone]) any { return flush{i, gen + 1, r} }
	w.cancel = actor.AskThen(c, l.to, flushPatience, ask, func(flushDone, error) error {
		h.flushed(w)
		g.release(c, p)
		g.finish(c)
		return nil
	})
}

// flushed removes a flush that is over.
func (h *forwardGen) flushed(w *wait) {
	h.flushes = slices.DeleteFunc(h.flushes, func(o *wait) bool { return o == w })
}

// giveUp ends the wait for flushes to nodes that are no longer members: the messages that they had
// are lost.
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

package actor

import (
	"context"
	"fmt"
	"sync/atomic"
)

// alias is one more reference to an actor, which can be revoked.
type alias[M any] struct {
	*process[M]
	name    string
	revoked atomic.Bool
}

// Alias returns one more reference to the actor, and what revokes it: from then
// on sending to it fails as if the actor had stopped, while the actor goes on. So a
// reference can be given away for a while, or to one peer. It can be sent to other
// nodes, outlives restarts, and ends with the actor.
func (c *Context[M]) Alias() (Ref[M], func()) {
	p := c.self
	a := &alias[M]{process: p, name: fmt.Sprintf("alias-%d-%d", p.id, p.node.aliases.Add(1))}
	if err := p.register(a.name); err != nil {
		a.revoked.Store(true) // somebody took a name that is not for people
	}
	return Ref[M]{a}, func() {
		a.revoked.Store(true)
		p.unregister(a.name)
	}
}

func (a *alias[M]) put(ctx context.Context, p Priority, e envelope[M]) error {
	if a.revoked.Load() {
		return a.refuse(e, ErrStopped)
	}
	return Ref[M]{a.process}.put(ctx, p, e)
}

func (a *alias[M]) offer(ctx context.Context, e envelope[M]) (runnable, error) {
	if a.revoked.Load() {
		return nil, ErrStopped
	}
	return a.process.offer(ctx, e)
}

func (a *alias[M]) address() Address {
	return Address{Node: a.node.name, Start: a.node.start, Name: a.name}
}

package actor

import (
	"context"
	"fmt"
	"sync/atomic"
)

// alias is the target of a reference that can be revoked. It embeds the process for the methods of
// target that it does not replace.
type alias[M any] struct {
	*process[M]
	name    string // registered on the node: it is the address of the alias for other nodes
	revoked atomic.Bool
}

// Alias returns one more reference to the actor, and a function that revokes it, which any
// goroutine may call. After that, sending to the reference fails as if the actor had ended, while
// the actor goes on; Monitor, Link and Stop still reach it. So a reference can be given away for a
// time, or to one peer. It can be sent to other nodes, outlives restarts, and ends with the actor.
//
// The alias is a registered name of the actor until it is revoked, so [Info] lists it.
func (c *Context[M]) Alias() (Ref[M], func()) {
	p := c.self
	a := &alias[M]{process: p, name: fmt.Sprintf("alias-%d-%d", p.id, p.node.aliases.Add(1))}
	if err := p.register(a.name); err != nil {
		a.revoked.Store(true) // the program has registered such a name itself
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

func (a *alias[M]) offer(ctx context.Context, e envelope[M]) (runnable, rest, error) {
	if a.revoked.Load() {
		return nil, rest{}, ErrStopped
	}
	return a.process.offer(ctx, e)
}

func (a *alias[M]) address() Address {
	return Address{Node: a.node.name, Start: a.node.start, Name: a.name}
}

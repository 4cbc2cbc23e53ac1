package actor

import (
	"time"

	"github.com/mainstemdev/mainstem"
)

// Spawner is what actors can be spawned from: a [Node], or the [Context] of an
// actor, whose children they become.
type Spawner interface {
	spawner() (*Node, *core)
}

// Spawn starts an actor. It calls the actor's Start method, if it has one, and
// fails with its error. It costs no goroutine: an actor has one only while it
// has messages.
//
// The new actor is a child of s: it is stopped before s is. It fails with Closed
// if s has stopped, Exists if the name is taken.
func Spawn[M any](s Spawner, a Actor[M], o *Options) (Ref[M], error) {
	set, err := newSettings(o)
	if err != nil {
		return Ref[M]{}, err
	}
	n, parent := s.spawner()
	p, err := newProcess(n, a, set)
	if err != nil {
		return Ref[M]{}, err
	}
	if err := p.hatch(parent); err != nil {
		return Ref[M]{}, err
	}
	return Ref[M]{p}, nil
}

// newProcess makes an actor that nothing refers to yet.
func newProcess[M any](n *Node, a Actor[M], set *settings) (*process[M], error) {
	if a == nil {
		return nil, invalidf("there is no actor to spawn: it is nil")
	}
	p := &process[M]{act: a, typeState: typeStateOf[M](n), set: set}
	p.ctx.self = p
	p.node, p.ops, p.inc = n, p, 1
	if set.Mailbox > 0 {
		p.bounded = &bounded[M]{limit: set.Mailbox}
	}
	if set.Overflow == Divert {
		if _, ok := set.Fallback.(Ref[M]); !ok {
			return nil, invalidf("Options.Fallback takes other messages than the actor: it is a %T", set.Fallback)
		}
	}
	return p, nil
}

// hatch makes the actor known as a child of parent and starts its first incarnation.
func (p *process[M]) hatch(parent *core) error {
	n := p.node
	n.table.add(&p.core)
	if p.set.Name != "" {
		if err := p.register(p.set.Name); err != nil {
			n.table.remove(&p.core)
			return err
		}
	}
	if !parent.adopt(&p.core) {
		n.forget(&p.core, []string{p.set.Name})
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: "spawn", Err: ErrStopped}
	}
	return p.begin()
}

// begin starts an incarnation: the calling goroutine has the actor until then.
func (p *process[M]) begin() error {
	if s, ok := p.act.(Starter[M]); ok {
		if err := guard(func() error { return s.Start(&p.ctx) }); err != nil {
			p.end(err)
			return err
		}
	}
	if o := p.node.observer; o != nil {
		p.node.harmless(func() { o.Started(Ref[M]{p}) })
	}
	p.mu.Lock()
	p.state.step(onStarted)
	if p.expressed.Load() || p.hasUserMessage() {
		p.wake() // unlocks
		return nil
	}
	if p.set.Idle > 0 {
		p.idleLocked()
	}
	p.mu.Unlock()
	return nil
}

// hasUserMessage reports whether a user message waits. The caller holds p.mu and
// has the actor.
func (p *process[M]) hasUserMessage() bool {
	return !p.queue.empty() || p.bounded != nil && p.bounded.n > 0 ||
		p.cur != nil && int(p.at.Load()) < len(p.cur.slots) || p.own != nil && len(p.own.front) > 0
}

func (p *process[M]) restart() error {
	p.mu.Lock()
	if !p.state.can(onRestart) || p.fresh == nil {
		p.mu.Unlock()
		return fault("restart", p.address(), ErrStopped)
	}
	p.state.step(onRestart)
	var dropped []envelope[M]
	if p.set.DropMailbox {
		dropped = p.emptyLocked()
	} else if p.own != nil {
		p.own.front = append(p.own.stash, p.own.front...)
		p.own.stash, p.own.plain = nil, nil
	}
	p.coreExtras.reason = nil
	p.mu.Unlock()
	for _, e := range dropped {
		_ = p.refuse(e, ErrStopped)
	}
	if err := guard(func() error { p.become(p.fresh()); return nil }); err != nil {
		p.end(err)
		return err
	}
	return p.begin()
}

func (p *process[M]) grace() time.Duration { return p.set.Grace }

// register gives the actor one more name.
func (c *core) register(name string) error {
	if err := validName("an actor", name); err != nil {
		return err
	}
	if _, taken := c.node.names.LoadOrStore(name, c); taken {
		return &mainstem.Error{Kind: mainstem.KindExists, Op: "register " + c.node.name + "/" + name, Hint: "names are unique on a node"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.more()
	r.names = append(r.names, name)
	return nil
}

// unregister takes a name away and reports whether c had it.
func (c *core) unregister(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.more()
	for i, had := range r.names {
		if had == name {
			r.names = append(r.names[:i:i], r.names[i+1:]...)
			return c.node.names.CompareAndDelete(name, c)
		}
	}
	return false
}

package actor

import (
	"time"

	"github.com/mainstemdev/mainstem"
)

// Spawner is a [Node] or the [Context] of an actor: the parent of the actors that are spawned from
// it. A Context may be used for that in the actor's turn only.
type Spawner interface {
	spawner() (*Node, *core)
}

// Spawn starts an actor with the value a. If a has a Start method, the calling goroutine runs it,
// and Spawn returns its error, as gen_server:start returns that of init. The name of o is
// registered before Start is called. An actor has a goroutine only while it has messages: Spawn
// starts none.
//
// The new actor is a child of s and ends before s does. Unlike spawn_link of Erlang, that does not
// link the two: if the child ends, its parent goes on. The actor is not restarted; see [Supervise].
//
// Spawn fails with Invalid if a is nil or the options do not fit, Exists if the name is taken, and
// Closed if s has ended or is ending. It is safe for concurrent use on a Node.
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

// newProcess makes an actor in phase starting, which has no number and no parent yet.
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

// hatch gives the actor its number, its name and its parent and begins its first incarnation. If
// the name is taken or parent has ended, it takes them back. After any other error the actor has
// ended, and is suspended if it is supervised.
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

// begin begins an incarnation: it calls the Start method and then lets the actor handle messages.
// The calling goroutine has the actor until begin returns. If Start fails, begin ends the
// incarnation and returns the error. If runtime.Goexit in Start ends the goroutine, another one ends
// the incarnation.
func (p *process[M]) begin() error {
	if s, ok := p.act.(Starter[M]); ok {
		if err := guardExit(func() error { return s.Start(&p.ctx) }, func() { p.end(Exited) }); err != nil {
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

// hasUserMessage reports whether a user message waits. The caller holds p.mu and has the actor.
func (p *process[M]) hasUserMessage() bool {
	return !p.queue.empty() || p.bounded != nil && p.bounded.n > 0 ||
		p.cur != nil && int(p.at.Load()) < len(p.cur.slots) || p.own != nil && len(p.own.front) > 0
}

// restart begins a new incarnation of a suspended actor; see ops. The messages that waited stay in
// the mailbox, and those that were stashed go before them, unless Options.DropMailbox makes dead
// letters of all of them. The message during which the last incarnation failed is gone.
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
	p.act = nil // it has been stopped: if fresh panics, there is nothing to stop
	p.mu.Unlock()
	for _, e := range dropped {
		_ = p.refuse(e, ErrStopped)
	}
	if err := guardExit(func() error { p.become(p.fresh()); return nil }, func() { p.end(Exited) }); err != nil {
		p.end(err)
		return err
	}
	return p.begin()
}

func (p *process[M]) grace() time.Duration { return p.set.Grace }

// register gives the actor one more name. It fails with Exists if another actor of the node has it.
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

// unregister takes a name from c and reports whether c had it.
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

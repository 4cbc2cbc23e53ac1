package actor

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// DefaultIdle is how long an actor of a [Keyed] may have nothing to do.
const DefaultIdle = 10 * time.Minute

// Keyed is one actor for each key: it is spawned by the first message for its
// key and ends when it has had nothing to do for some time, so that only keys in use take
// memory. An actor that needs its state for longer loads it in its Start method and saves it in
// its Stop method. Keyed is safe for concurrent use.
//
// At any moment there is at most one actor for a key: the next is started when the
// former has ended, its Stop method included. No message is lost in between: one that
// comes when its actor is about to end goes to the next. An actor that crashes is
// not restarted, so messages that it has not handled become dead letters; the next message
// finds a new one.
type Keyed[K comparable, M any] struct {
	node      *Node
	owner     Ref[none]
	typeState *typeState[M]
	fresh     func(K) Actor[M]
	set       *settings
	actors    sync.Map // K -> *process[M]
}

// none is the message of an actor that is sent none.
type none struct{}

// NewKeyed makes a Keyed whose actors fresh makes. They are children of an actor
// without a task of its own, which is spawned from s and named by Options.Name; all
// other options are those of each actor. Options.Idle defaults to [DefaultIdle].
func NewKeyed[K comparable, A Actor[M], M any](s Spawner, fresh func(K) A, o *Options) (*Keyed[K, M], error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	name := opts.Name
	opts.Name = ""
	if opts.Idle == 0 {
		opts.Idle = DefaultIdle
	}
	set, err := newSettings(&opts)
	if err != nil {
		return nil, err
	}
	n, _ := s.spawner()
	k := &Keyed[K, M]{node: n, typeState: typeStateOf[M](n), set: set, fresh: func(key K) Actor[M] { return fresh(key) }}
	idle := Func[none](func(*Context[none], none) error { return nil })
	if k.owner, err = Spawn(s, Actor[none](idle), &Options{Name: name, Grace: -1}); err != nil {
		return nil, err
	}
	return k, nil
}

// Owner returns the parent of the actors: to stop it is to stop them all.
func (k *Keyed[K, M]) Owner() AnyRef { return k.owner }

// Ref returns a reference to the actor of a key, whichever lives when a message is
// sent or asked. It costs nothing to make and stays good for as long as k.
//
// Sending to it does what [Ref.Send] does; if there is no actor, it spawns one first,
// calls its Start method, and fails with that one's error; if one is just ending, it waits for
// that, as long as the context allows. It fails with Closed once the owner has stopped.
//
// It refers to a key, not to one actor: it cannot be monitored, linked, stopped,
// subscribed or made a member. [Keyed.Actor] can.
func (k *Keyed[K, M]) Ref(key K) Ref[M] { return Ref[M]{&keyedTarget[K, M]{k, key}} }

// Send sends m to the actor of a key.
func (k *Keyed[K, M]) Send(ctx context.Context, key K, m M) error {
	return k.Ref(key).Send(ctx, m)
}

// Actor returns the actor of a key if it lives now.
func (k *Keyed[K, M]) Actor(key K) (Ref[M], bool) {
	p := k.find(key)
	if p == nil || p.gone() {
		return Ref[M]{}, false
	}
	return Ref[M]{p}, true
}

// Len returns how many actors there are now. It looks at all of them.
func (k *Keyed[K, M]) Len() int {
	n := 0
	k.actors.Range(func(_, _ any) bool { n++; return true })
	return n
}

// Keys calls f with the keys that have an actor until f returns false. Actors that
// come or go meanwhile may be seen or not.
func (k *Keyed[K, M]) Keys(f func(K) bool) {
	k.actors.Range(func(key, _ any) bool { return f(key.(K)) })
}

// find returns the actor of a key, nil if there is none.
func (k *Keyed[K, M]) find(key K) *process[M] {
	if v, ok := k.actors.Load(key); ok {
		return v.(*process[M])
	}
	return nil
}

// activate returns the actor of a key and spawns it if there is none.
func (k *Keyed[K, M]) activate(key K) (*process[M], error) {
	var a Actor[M]
	if err := guard(func() error { a = k.fresh(key); return nil }); err != nil {
		return nil, err
	}
	p, err := newProcess(k.node, a, k.set)
	if err != nil {
		return nil, err
	}
	k.node.table.add(&p.core)
	if owner := k.owner.core(); !owner.adopt(&p.core) {
		k.node.forget(&p.core, nil)
		return nil, fault("spawn an actor of", owner.address(), ErrStopped)
	}
	if v, loaded := k.actors.LoadOrStore(key, p); loaded {
		p.act = Func[M](func(*Context[M], M) error { return nil }) // it was not started, so its Stop must not be called
		p.end(Normal)
		return v.(*process[M]), nil
	}
	// From here others may put messages into its mailbox.
	w := &watch{notify: func(error) { k.actors.CompareAndDelete(key, p) }}
	w.begin(&p.core)
	return p, p.begin()
}

// keyedTarget is the actor of a key.
type keyedTarget[K comparable, M any] struct {
	k   *Keyed[K, M]
	key K
}

// put places an envelope in the mailbox of the actor that lives, if need be after
// the former has ended.
func (t *keyedTarget[K, M]) put(ctx context.Context, prio Priority, e envelope[M]) error {
	if n := t.k.node; n.observed {
		e.x = n.observe(ctx, Ref[M]{t}, e.x)
	}
	for {
		p, err := t.reach()
		if err != nil {
			return t.refuse(e, err)
		}
		if there, err := p.tryPut(ctx, prio, e); there {
			return err
		}
		if err := t.outlive(ctx, p); err != nil {
			return t.refuse(e, err)
		}
	}
}

// refuse makes a dead letter of a message whose actor could not be reached, and
// returns the cause as it is.
func (t *keyedTarget[K, M]) refuse(e envelope[M], cause error) error {
	to := t.k.owner.Address()
	_ = guard(func() error { to = t.address(); return nil }) // see reach
	_ = unplaced(t.k.node, to, e, cause)
	return cause
}

// offer is put, which starts the actor itself.
func (t *keyedTarget[K, M]) offer(ctx context.Context, e envelope[M]) (runnable, error) {
	return nil, t.put(ctx, User, e)
}

// reach returns the actor of the key, spawned if need be. A key that has no hash,
// such as a slice in an interface, panics.
func (t *keyedTarget[K, M]) reach() (p *process[M], err error) {
	failed := guard(func() error {
		if p = t.k.find(t.key); p == nil {
			p, err = t.k.activate(t.key)
		}
		return nil
	})
	if failed != nil {
		return nil, failed
	}
	return p, err
}

// outlive waits until p has ended.
func (t *keyedTarget[K, M]) outlive(ctx context.Context, p *process[M]) error {
	if ended := p.ending(); ended != nil {
		var cancelled <-chan struct{}
		if ctx != nil {
			cancelled = ctx.Done()
		}
		select {
		case <-ended:
		case <-cancelled:
			return fault("send to", t.address(), endOf(ctx, time.Time{}, "the actor before it to stop"))
		}
	}
	t.k.actors.CompareAndDelete(t.key, p)
	return nil
}

// tryPut is put for an actor that may have ended: it reports whether it was there
// and makes no dead letter if it was not.
func (p *process[M]) tryPut(ctx context.Context, prio Priority, e envelope[M]) (there bool, err error) {
	p.mu.Lock()
	if !p.state.alive() {
		p.mu.Unlock()
		return false, nil
	}
	switch {
	case prio != User:
		p.priorityQueue().push(prio, e)
	case p.bounded == nil:
		p.queue.push(p.typeState, e)
	case p.bounded.full() || len(p.bounded.waiting) > 0:
		return true, p.overflow(ctx, e) // unlocks
	default:
		p.bounded.push(e)
	}
	p.wake() // unlocks
	return true, nil
}

func (t *keyedTarget[K, M]) address() Address {
	if p := t.k.find(t.key); p != nil {
		return p.address()
	}
	a := t.k.owner.Address()
	return Address{Node: a.Node, Start: a.Start, Name: fmt.Sprintf("%s[%v]", a.Name, t.key)}
}

func (t *keyedTarget[K, M]) local() *core    { return nil }
func (t *keyedTarget[K, M]) seat() *Node     { return t.k.node }
func (t *keyedTarget[K, M]) asks() *askPools { return &t.k.typeState.asks }

package actor

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The life of the actor of a key:
//
//  1. The first message for the key makes a process in phase starting and stores it in actors. If
//     two senders do that at once, the second one ends its process, which was not started, and uses
//     the first.
//  2. The sender runs the Start method. Messages that others send meanwhile wait in the mailbox.
//  3. The actor ends: by Options.Idle, by itself, or by its owner. From the phase ending on, tryPut
//     refuses messages without a dead letter, and their senders wait (outlive) until it has ended.
//  4. A monitor, or the first such sender, removes it from actors. The next message starts at 1.
//
// Invariant: at most one process for a key is between the calls of its Start method and the return
// of its Stop method. A process is replaced in actors only after its end.

// DefaultIdle is the default of Options.Idle for an actor of a [Keyed].
const DefaultIdle = 10 * time.Minute

// Keyed has one actor for each key. An actor is spawned by the first message for its key, and is
// passivated when it has had nothing to do for some time, so that only keys in use take memory. An
// actor that needs its state for longer loads it in its Start method and saves it in its Stop
// method. Keyed is safe for concurrent use.
//
// At any time there is at most one actor for a key: the next one is started after the Stop method
// of the former has returned. A message that finds its actor ending goes to the next one.
//
// An actor that crashes is not restarted: the messages in its mailbox become dead letters, and the
// next message starts a new one, without a delay and without a limit.
type Keyed[K comparable, M any] struct {
	node      *Node
	owner     Ref[none]     // the parent of all actors
	typeState *typeState[M] // for the questions to keys
	fresh     func(K) Actor[M]
	set       *settings
	actors    sync.Map // K -> *process[M]
}

// none is the message type of the owner, to which no message is sent.
type none struct{}

// NewKeyed makes a Keyed. fresh makes the value of an actor; the sender of the first message for a
// key calls it, so several calls may run at once. The actors are children of an actor that handles
// no messages, which is spawned from s under Options.Name. All other options are those of each
// actor. Options.Idle defaults to [DefaultIdle]. It fails with Invalid if the options do not fit,
// Exists if the name is taken, Closed if s has ended.
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

// Owner returns the parent of the actors. To stop it is to stop all of them.
func (k *Keyed[K, M]) Owner() AnyRef { return k.owner }

// Ref returns a reference to the actor of a key: the one that there is when a message is sent. It
// is valid as long as the owner lives.
//
// Sending to it does what [Ref.Send] does. If there is no actor, the sender spawns it first and
// runs its Start method; an error of that is returned, and the message becomes a dead letter. If
// the actor is ending, the sender waits for the end, as long as the context allows. Sending fails
// with Closed once the owner has ended. If K is an interface and the key has no hash, such as a
// slice, it fails with a [*PanicError].
//
// The reference is to a key and not to one actor: it cannot be used to monitor, link, stop,
// subscribe or join. That of [Keyed.Actor] can.
func (k *Keyed[K, M]) Ref(key K) Ref[M] { return Ref[M]{keyedTarget[K, M]{k, key}} }

// Send sends m to the actor of a key, like Ref(key).Send.
func (k *Keyed[K, M]) Send(ctx context.Context, key K, m M) error {
	return k.Ref(key).Send(ctx, m)
}

// Actor returns the actor that a key has now, false if there is none. It spawns none.
func (k *Keyed[K, M]) Actor(key K) (Ref[M], bool) {
	p := k.find(key)
	if p == nil || p.gone() {
		return Ref[M]{}, false
	}
	return Ref[M]{p}, true
}

// Len returns how many actors there are now. Its cost is proportional to that.
func (k *Keyed[K, M]) Len() int {
	n := 0
	k.actors.Range(func(_, _ any) bool { n++; return true })
	return n
}

// Keys calls f with each key that has an actor, in no order, until f returns false. Keys whose
// actors start or end meanwhile may be missing.
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

// activate spawns the actor of a key and returns it, or the one that another sender has spawned
// meanwhile. If Start fails, it returns the actor, which has ended, and the error.
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
		p.discard()
		return v.(*process[M]), nil
	}
	// From here on others may put messages into its mailbox.
	w := &watch{notify: func(error) { k.actors.CompareAndDelete(key, p) }}
	w.begin(&p.core)
	return p, p.begin()
}

// keyedTarget is the target of Keyed.Ref. It is a value, so that references to the same key are
// equal. To compare keys that have no hash panics.
type keyedTarget[K comparable, M any] struct {
	k   *Keyed[K, M]
	key K
}

// put places an envelope in the mailbox of the actor of the key. If that is ending, put waits for
// its end and tries the next one.
func (t keyedTarget[K, M]) put(ctx context.Context, prio Priority, e envelope[M]) error {
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

// refuse makes a dead letter of a message for which there is no actor, and returns the cause as it
// is.
func (t keyedTarget[K, M]) refuse(e envelope[M], cause error) error {
	to := t.k.owner.Address()
	_ = guard(func() error { to = t.address(); return nil }) // the key may have no hash
	_ = unplaced(t.k.node, to, e, cause)
	return cause
}

// offer is put: the actor gets a goroutine of its own.
func (t keyedTarget[K, M]) offer(ctx context.Context, e envelope[M]) (runnable, rest, error) {
	return nil, rest{do: func() error { return t.put(ctx, User, e) }}, nil
}

// reach returns the actor of the key and spawns it if there is none. The panic of a key that has no
// hash, such as a slice in an interface, is returned as an error.
func (t keyedTarget[K, M]) reach() (p *process[M], err error) {
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

// outlive waits until p has ended and removes it from actors. It fails if ctx ends first.
func (t keyedTarget[K, M]) outlive(ctx context.Context, p *process[M]) error {
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

// tryPut is put for an actor that may be ending or have ended: then it returns false and makes no
// dead letter.
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

func (t keyedTarget[K, M]) address() Address {
	if p := t.k.find(t.key); p != nil {
		return p.address()
	}
	a := t.k.owner.Address()
	return Address{Node: a.Node, Start: a.Start, Name: fmt.Sprintf("%s[%v]", a.Name, t.key)}
}

func (t keyedTarget[K, M]) local() *core    { return nil }
func (t keyedTarget[K, M]) seat() *Node     { return t.k.node }
func (t keyedTarget[K, M]) asks() *askPools { return &t.k.typeState.asks }

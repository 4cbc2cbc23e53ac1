package actor

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

// NodeOptions configure a [Node]; nil means the defaults.
type NodeOptions struct {
	// Logger gets failures of actors and what is left behind. Default: discards.
	Logger *slog.Logger
	// Observer is called at each step of an actor. Default: none, at no cost.
	Observer Observer
	// Tracer lets traces ride on messages. Default: none, at no cost.
	Tracer Tracer
}

// Node is a set of actors that live and stop together. It is safe for
// concurrent use. Several nodes in one process are independent of each other.
type Node struct {
	name  string
	start uint64
	log   *slog.Logger
	root  core // the parent of the actors that the node itself spawned
	table table

	transport atomic.Pointer[Transport]
	questions questions
	binders   binders
	asks      askPools // of questions to other nodes

	observer Observer
	tracer   Tracer
	observed bool // one of them is there

	names      sync.Map      // string -> *core
	aliases    atomic.Uint64 // made so far
	events     sync.Map      // string -> *Event[E]
	groups     sync.Map      // string -> *Group[M]
	typeStates sync.Map      // reflect.Type of M -> *typeState[M]
	dead       deadLetters

	stopping atomic.Bool
	stopped  chan struct{}
	err      error // set before stopped is closed
}

// Open makes a node. Close or Stop it.
func Open(name string, o *NodeOptions) (*Node, error) {
	if err := validName("a node", name); err != nil {
		return nil, err
	}
	if o == nil {
		o = &NodeOptions{}
	}
	n := &Node{name: name, start: uint64(time.Now().UnixNano()), log: o.Logger, stopped: make(chan struct{})}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	n.observer, n.tracer = o.Observer, o.Tracer
	n.observed = o.Observer != nil || o.Tracer != nil
	n.root.node = n
	n.root.state.step(onStarted)
	return n, nil
}

// lifetime is the context that ends when the node has stopped: that of what
// belongs to no caller.
type lifetime struct{ *Node }

func (lifetime) Deadline() (time.Time, bool) { return time.Time{}, false }
func (l lifetime) Done() <-chan struct{}     { return l.stopped }
func (lifetime) Value(any) any               { return nil }
func (l lifetime) Err() error {
	select {
	case <-l.stopped:
		return context.Canceled
	default:
		return nil
	}
}

// Name returns the node's name.
func (n *Node) Name() string { return n.name }

// Start returns the incarnation of the node, which differs from all others of its name.
func (n *Node) Start() uint64 { return n.start }

// Len returns how many actors live on the node.
func (n *Node) Len() int { return n.table.size() }

func (n *Node) spawner() (*Node, *core) { return n, &n.root }

// typeStateOf returns what the actors of message type M share.
func typeStateOf[M any](n *Node) *typeState[M] {
	key := reflect.TypeFor[M]()
	if b, ok := n.typeStates.Load(key); ok {
		return b.(*typeState[M])
	}
	b, _ := n.typeStates.LoadOrStore(key, newTypeState[M](n))
	return b.(*typeState[M])
}

// forget removes an actor that is gone from the node's tables.
func (n *Node) forget(c *core, names []string) {
	for _, name := range names {
		n.names.CompareAndDelete(name, c)
	}
	n.table.remove(c)
}

// StopError says which actors had not stopped when a node gave up waiting.
type StopError struct {
	Stuck []Info // actors that still run, parents before children
	Err   error  // why the node gave up
}

// Error names the first of the actors that did not stop.
func (e *StopError) Error() string {
	s := fmt.Sprintf("%d actors did not stop", len(e.Stuck))
	for i, info := range e.Stuck {
		if i == maxNamed {
			return s + ", …: " + e.Err.Error()
		}
		s += ", " + info.Address.String()
	}
	return s + ": " + e.Err.Error()
}

// maxNamed is how many actors an error names.
const maxNamed = 8

// Unwrap returns why the node gave up.
func (e *StopError) Unwrap() error { return e.Err }

// Is matches the sentinel of the contract for what may succeed later.
func (e *StopError) Is(target error) bool { return target == mainstem.ErrUnavailable }

// Stop stops the node: nothing can be spawned any more, every actor handles what
// waits in its mailbox, then its children do, then it ends. Stop returns when all
// have, or, when ctx ends, with a [*StopError] that lists who has not. Those are
// left behind: a goroutine in Go cannot be ended from outside.
//
// The first call decides; others wait for it, each as long as its ctx allows.
func (n *Node) Stop(ctx context.Context) error {
	began := time.Now()
	return n.stop(ctx.Done(), func() error { return endOf(ctx, began, "actors to stop") })
}

// Close stops the node and waits [DefaultGrace] for its actors. Closing twice is allowed.
func (n *Node) Close() error {
	done := make(chan struct{})
	defer time.AfterFunc(DefaultGrace, func() { close(done) }).Stop()
	return n.stop(done, func() error { return &mainstem.DeadlineError{After: DefaultGrace, Waiting: "actors to stop"} })
}

func (n *Node) stop(done <-chan struct{}, cause func() error) error {
	if n.stopping.CompareAndSwap(false, true) {
		n.root.mu.Lock()
		n.root.state.step(onPassivate)
		n.root.mu.Unlock()
		n.err = n.stopAll(done, cause)
		close(n.stopped)
		return n.err
	}
	select {
	case <-n.stopped:
		return n.err
	case <-done:
		return fault("stop node", Address{Node: n.name}, cause())
	}
}

func (n *Node) stopAll(done <-chan struct{}, cause func() error) error {
	children := n.root.children()
	for _, k := range children {
		k.requestEnd(Shutdown, true)
	}
	for _, k := range children {
		ended := k.ending()
		if ended == nil {
			continue
		}
		select {
		case <-ended:
		case <-done:
			return n.giveUp(cause())
		}
	}
	return nil
}

// giveUp kills all actors that still live, and lists them.
func (n *Node) giveUp(cause error) error {
	e := &StopError{Err: cause}
	var list func(c *core)
	list = func(c *core) {
		for _, k := range c.children() {
			if k.ending() == nil {
				continue
			}
			e.Stuck = append(e.Stuck, k.ops.inspect())
			k.ops.signal(signal{kind: killSignal})
			list(k)
		}
	}
	list(&n.root)
	if len(e.Stuck) == 0 {
		return nil
	}
	return e
}

package actor

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

// NodeOptions configure a [Node]; nil means the defaults.
type NodeOptions struct {
	// Logger gets crashes of actors, actors that are left behind, and panics of observers and
	// listeners. Default: discards.
	Logger *slog.Logger
	// Observer is called at the steps of each actor. Default: none, at no cost.
	Observer Observer
	// Tracer carries traces along with messages. Default: none, at no cost.
	Tracer Tracer
}

// Node is a set of actors that live and stop together, with a registry of names. It is safe for
// concurrent use. A node is no process of the operating system: several nodes of one process are
// independent of each other.
type Node struct {
	name  string
	start uint64 // see Start
	log   *slog.Logger
	root  core  // the parent of the actors that are spawned from the node; it has no process
	table table // all actors by number

	transport atomic.Pointer[Transport] // nil until Connect
	questions questions                 // those that other nodes can answer
	binders   binders
	asks      askPools // of questions to actors of other nodes

	observer Observer
	tracer   Tracer
	observed bool // observer or tracer is not nil

	names      sync.Map      // string -> *core
	aliases    atomic.Uint64 // made so far
	events     sync.Map      // string -> *Event[E]
	groups     sync.Map      // string -> *Group[M]
	typeStates sync.Map      // reflect.Type of M -> *typeState[M]
	dead       deadLetters
	behind     behind

	stopping atomic.Bool   // the first Stop or Close has begun
	stopped  chan struct{} // closed when the first Stop or Close returns
	err      error         // its result; written before stopped is closed, read after that
}

// Open makes a node. It owns no goroutine and no file; Close or Stop ends its actors. It fails with
// Invalid if name cannot be a name.
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

// lifetime is the context of calls on behalf of no caller: it ends when the node has stopped.
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

// Start returns the incarnation of the node, like the creation of an Erlang node: the time of Open
// in nanoseconds since 1970. It differs from that of earlier nodes of the name as long as the clock
// has not been set back.
func (n *Node) Start() uint64 { return n.start }

// Len returns the number of actors on the node, those included that are ending or suspended.
func (n *Node) Len() int { return n.table.size() }

func (n *Node) spawner() (*Node, *core) { return n, &n.root }

// typeStateOf returns the pools that the actors of message type M on n share.
func typeStateOf[M any](n *Node) *typeState[M] {
	key := reflect.TypeFor[M]()
	if b, ok := n.typeStates.Load(key); ok {
		return b.(*typeState[M])
	}
	b, _ := n.typeStates.LoadOrStore(key, newTypeState[M](n))
	return b.(*typeState[M])
}

// forget removes an actor and its names from the tables of the node.
func (n *Node) forget(c *core, names []string) {
	for _, name := range names {
		n.names.CompareAndDelete(name, c)
	}
	n.table.remove(c)
}

// StopError says which actors had not ended when a node gave up waiting. It matches
// mainstem.ErrUnavailable.
type StopError struct {
	Stuck []Info // actors that had not ended, parents before children
	Err   error  // why the node gave up: the end of the context
}

// Error names the first few of the actors that did not stop.
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

// Is reports whether target is mainstem.ErrUnavailable.
func (e *StopError) Is(target error) bool { return target == mainstem.ErrUnavailable }

// Stop stops the node. From then on no actor can be spawned from the node. All actors that were
// spawned from it are drained at once: each handles the User messages that wait in its mailbox,
// then its children are drained in the same way, then it ends with [Shutdown]. Stop returns nil
// when all have ended, those included that their parents have left behind after their Grace.
//
// If ctx ends first, Stop kills the actors that have not ended and returns a [*StopError] that
// lists them. One that does not return from its present message runs on: a goroutine cannot be
// killed.
//
// The first call of Stop or Close does this. Other calls return its result; if their ctx ends
// before, they fail with Canceled and change nothing.
func (n *Node) Stop(ctx context.Context) error {
	began := time.Now()
	return n.stop(ctx.Done(), func() error { return endOf(ctx, began, "actors to stop") })
}

// Close is Stop with a time limit of [DefaultGrace]. Closing twice is allowed.
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

// stopAll drains the children of the root and waits until done for them, and then for the actors that
// were left behind.
func (n *Node) stopAll(done <-chan struct{}, cause func() error) error {
	children := n.root.children()
	for _, k := range children {
		k.requestEnd(Shutdown, true)
	}
	for ; len(children) > 0; children = n.behind.list() {
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
	}
	return nil
}

// giveUp kills all actors that have not ended and returns a StopError with them, nil if there are
// none.
func (n *Node) giveUp(cause error) error {
	e := &StopError{Err: cause}
	seen := make(map[*core]bool) // the parent of one that was left behind may not have ended either
	var list func(actors []*core)
	list = func(actors []*core) {
		for _, k := range actors {
			if k.ending() == nil || seen[k] {
				continue
			}
			seen[k] = true
			e.Stuck = append(e.Stuck, k.ops.inspect())
			k.ops.signal(signal{kind: killSignal})
			list(k.children())
		}
	}
	list(n.root.children())
	list(n.behind.list())
	if len(e.Stuck) == 0 {
		return nil
	}
	return e
}

// behind are the actors of a node that were left behind. Once its parent has ended, such an actor is
// not in the tree below the root any more.
type behind struct {
	mu     sync.Mutex // guards actors; a core may be locked while it is held
	actors []*core    // some may have ended since
}

// add adds an actor, and removes those that have ended.
func (b *behind) add(c *core) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actors = append(slices.DeleteFunc(b.actors, (*core).finished), c)
}

// list returns the actors that have not ended. The slice is the caller's.
func (b *behind) list() []*core {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.actors), (*core).finished)
}

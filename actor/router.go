package actor

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Routing says to which of its routes a [Router] or a [Pool] sends a message.
type Routing uint8

// The ways of routing. RoundRobin and LeastLoaded skip an actor that has ended, is ending, waits
// for its restart, or has a full mailbox, as long as there is another one. If there is none,
// RoundRobin and LeastLoaded take the next one in turn.
const (
	// RoundRobin takes one route after another.
	RoundRobin Routing = iota
	// LeastLoaded takes the actor with the fewest messages, the one that it handles included. It
	// asks one actor after another until it finds an idle one. A reference that is not directly to
	// an actor of this process (another node, Adapt, Alias, a key, a router) counts as idle.
	LeastLoaded
	// ByKey sends all messages of one key to the same route, in order, as long as the number of
	// routes is the same. If that changes from n to n+1, one key in n+1 changes its route. The
	// assignment differs from router to router.
	ByKey
)

var routingNames = [...]string{"round robin", "least loaded", "by key"}

// String returns "round robin", "least loaded" or "by key".
func (r Routing) String() string {
	if int(r) < len(routingNames) {
		return routingNames[r]
	}
	return "unknown routing"
}

// Router sends each message to one of several references, its routes. The goroutine of the sender
// chooses the route: there is no actor in between, and messages of one sender to one route keep
// their order. It is safe for concurrent use.
type Router[M any] struct {
	routing Routing
	key     func(M) string // with ByKey, else nil
	seed    maphash.Seed   // of the hash of keys
	asked   askPools

	turn   atomic.Uint64            // counts messages: the next route of RoundRobin and LeastLoaded
	mu     sync.Mutex               // held while routes is replaced
	routes atomic.Pointer[[]Ref[M]] // the slice does not change
}

// NewRouter makes a router. key is for [ByKey], which needs it, and must be nil for the others:
// else it fails with Invalid. key is called by the goroutine of the sender, or, for timers and
// events, by one of the runtime; several may call it at once. A message for which it panics becomes
// a dead letter with a [*PanicError].
func NewRouter[M any](routing Routing, key func(M) string, routes ...Ref[M]) (*Router[M], error) {
	switch {
	case routing > ByKey:
		return nil, invalidf("Routing %d: there is no such way", routing)
	case (routing == ByKey) != (key != nil):
		return nil, invalidf("a router needs a key function for ByKey, and for nothing else")
	}
	r := &Router[M]{routing: routing, key: key, seed: maphash.MakeSeed()}
	own := append([]Ref[M](nil), routes...)
	r.routes.Store(&own)
	return r, nil
}

// Ref returns a reference to the router. Messages can be sent to it, and questions asked, but it
// cannot be monitored, linked or stopped: the routes can. While there is no route, sending fails
// with Closed and leaves no dead letter.
func (r *Router[M]) Ref() Ref[M] { return Ref[M]{r} }

// Routes returns the routes. The slice is the caller's.
func (r *Router[M]) Routes() []Ref[M] { return append([]Ref[M](nil), *r.routes.Load()...) }

// Add adds a route at the end.
func (r *Router[M]) Add(route Ref[M]) {
	r.change(func(routes []Ref[M]) []Ref[M] { return append(routes, route) })
}

// Remove removes the first route to the actor of a reference, and reports whether there was one.
// The actor goes on, and messages in its mailbox stay there. If the reference is to no actor of this
// process, but to one of another node, a key or a router, the first route that is equal to it (==) is
// removed.
func (r *Router[M]) Remove(route AnyRef) (had bool) {
	r.change(func(routes []Ref[M]) []Ref[M] {
		for i, have := range routes {
			if sameTarget(have, route) {
				had = true
				return append(routes[:i], routes[i+1:]...)
			}
		}
		return routes
	})
	return had
}

// sameTarget reports whether two references are to the same actor of this process, or are equal.
func sameTarget(a, b AnyRef) (same bool) {
	if c := a.core(); c != nil || b.core() != nil {
		return c == b.core()
	}
	_ = guard(func() error { same = a == b; return nil }) // keys that have no hash are never equal
	return same
}

// change replaces the routes by the result of f, which gets a copy of them.
func (r *Router[M]) change(f func([]Ref[M]) []Ref[M]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	routes := f(r.Routes())
	r.routes.Store(&routes)
}

// choose returns the route for a message, the zero Ref if there are no routes, or the panic of the
// key function.
func (r *Router[M]) choose(m M) (Ref[M], error) {
	routes := *r.routes.Load()
	n := uint64(len(routes))
	switch {
	case n == 0:
		return Ref[M]{}, nil
	case r.routing == ByKey:
		var key string
		if err := guard(func() error { key = r.key(m); return nil }); err != nil {
			return Ref[M]{}, err
		}
		return routes[jump(maphash.String(r.seed, key), int(n))], nil
	}
	first := r.turn.Add(1) - 1
	chosen, least := routes[first%n], full
	for i := range n {
		route := routes[(first+i)%n]
		load := route.load()
		if load < least {
			chosen, least = route, load
		}
		if least == 0 || least < full && r.routing == RoundRobin {
			break
		}
	}
	return chosen, nil
}

// jump returns a number below n for a key, such that one key in n+1 gets another number when n
// becomes n+1 (Lamping and Veach, A Fast, Minimal Memory, Consistent Hash Algorithm).
func jump(key uint64, n int) int {
	b, j := int64(-1), int64(0)
	for j < int64(n) {
		b = j
		key = key*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(1<<31) / float64(key>>33+1)))
	}
	return int(b)
}

// full is the load of an actor that is not alive or has a full mailbox.
const full = int(^uint(0) >> 1)

// load returns how many messages the actor has, the one that it handles included. It is full for an
// actor that has ended, and 0 for all other references that are not directly to an actor of this
// process.
func (r Ref[M]) load() int {
	if p, ok := r.to.(*process[M]); ok {
		return p.load()
	}
	if c := r.core(); r.to == nil || c != nil && c.gone() {
		return full
	}
	return 0
}

func (p *process[M]) load() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.state.alive() {
		return full
	}
	n := p.queue.n
	if c := p.cur; c != nil {
		n += len(c.slots) - int(p.at.Load())
	}
	if b := p.bounded; b != nil {
		if b.full() {
			return full
		}
		n += b.n
	}
	if x := p.express; x != nil {
		n += len(x.urgent) + len(x.system)
	}
	if p.state.busy() {
		n++
	}
	return n
}

func (r *Router[M]) put(ctx context.Context, p Priority, e envelope[M]) error {
	to, err := r.choose(e.m)
	if err != nil {
		return unplaced(r.seat(), r.address(), e, err)
	}
	return to.put(ctx, p, e)
}

func (r *Router[M]) offer(ctx context.Context, e envelope[M]) (runnable, rest, error) {
	to, err := r.choose(e.m)
	if err != nil {
		return nil, rest{}, unplaced(r.seat(), r.address(), e, err)
	}
	err = ErrStopped
	if to.to != nil {
		var woken runnable
		var left rest
		if woken, left, err = to.to.offer(ctx, e); err == nil {
			return woken, left, nil
		}
	}
	if err == ErrStopped { // of the route: the router has not stopped, so that is not returned
		err = unplaced(r.seat(), to.Address(), e, err)
	}
	return nil, rest{}, err
}

// seat returns the node on which answers from the routes arrive, nil if none of them is bound to
// one.
func (r *Router[M]) seat() *Node {
	for _, route := range *r.routes.Load() {
		if n := route.home(); n != nil {
			return n
		}
	}
	return nil
}

func (r *Router[M]) address() Address { return Address{Name: "router"} }
func (r *Router[M]) local() *core     { return nil }
func (r *Router[M]) asks() *askPools  { return &r.asked }

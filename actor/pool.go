package actor

import (
	"context"
	"runtime"
	"strconv"
	"time"
)

// MaxWorkers is the greatest number of workers of a [Pool].
const MaxWorkers = 10_000

// PoolOptions configure a [Pool]; nil means the defaults.
type PoolOptions[M any] struct {
	// Name registers the pool's supervisor. Default: none.
	Name string
	// Workers is the number of workers. Default: GOMAXPROCS.
	Workers int
	// Routing says which worker gets a message. Default [RoundRobin].
	Routing Routing
	// Key is for [ByKey]: see [NewRouter].
	Key func(M) string
	// Worker are the options of the workers. Options.Name must be empty and Options.Idle 0. With
	// bounded mailboxes and [Block] the pool pushes back: when all mailboxes are full, Send waits
	// for room in the one that is next in turn.
	Worker ChildOptions
	// Limit and Backoff are those of the pool's supervisor, for workers without their own.
	Limit   Limit
	Backoff Backoff
}

// Pool is a router with workers that are children of a supervisor. All workers do the same; those
// that fail are restarted. It is safe for concurrent use.
type Pool[M any] struct {
	// Route i is worker i. The number of routes is that of workers; it changes only in the turn of
	// the supervisor.
	router *Router[M]
	sup    Supervisor        // a OneForOne supervisor
	worker func(i int) Child // describes worker i

	resizing chan struct{} // of capacity 1; full while a Resize changes the number of workers
}

// NewPool starts a pool: a supervisor that is spawned from s, and its workers, whose values fresh
// makes. It fails with Invalid if the options do not fit, or with the error of a worker's Start
// method.
func NewPool[A Actor[M], M any](s Spawner, fresh func() A, o *PoolOptions[M]) (*Pool[M], error) {
	var opts PoolOptions[M]
	if o != nil {
		opts = *o
	}
	if opts.Workers == 0 {
		opts.Workers = runtime.GOMAXPROCS(0)
	}
	if err := checkWorkers(opts.Workers); err != nil {
		return nil, err
	}
	if opts.Worker.Name != "" {
		return nil, invalidf("PoolOptions.Worker.Name is %q: workers cannot all have that name", opts.Worker.Name)
	}
	if opts.Worker.Idle != 0 {
		return nil, invalidf("PoolOptions.Worker.Idle is %s: workers are not passivated, the pool would start them again", opts.Worker.Idle)
	}
	router, err := NewRouter(opts.Routing, opts.Key, make([]Ref[M], opts.Workers)...)
	if err != nil {
		return nil, err
	}
	p := &Pool[M]{router: router, resizing: make(chan struct{}, 1)}
	p.worker = func(i int) Child {
		c := NewChild("worker-"+strconv.Itoa(i), fresh, &opts.Worker)
		p.follow(&c, i)
		return c
	}
	var children []Child
	for i := range opts.Workers {
		children = append(children, p.worker(i))
	}
	p.sup, err = Supervise(s, &SupervisorOptions{Name: opts.Name, Limit: opts.Limit, Backoff: opts.Backoff}, children...)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func checkWorkers(n int) error {
	if n < 1 || n > MaxWorkers {
		return invalidf("a pool of %d workers: want 1 to %d", n, MaxWorkers)
	}
	return nil
}

// follow makes c tell the router the reference of each new actor of worker i. A restart does not
// change the reference. A new actor is spawned by Enable, or in place of one that was left behind.
func (p *Pool[M]) follow(c *Child, i int) {
	spawn := c.spawn
	c.spawn = func(parent *core) (*core, error) {
		worker, err := spawn(parent)
		if err != nil {
			return nil, err
		}
		ref, err := refOf[M](worker)
		if err != nil {
			return nil, err
		}
		p.router.change(func(routes []Ref[M]) []Ref[M] {
			for len(routes) <= i {
				routes = append(routes, ref)
			}
			routes[i] = ref
			return routes
		})
		return worker, nil
	}
}

// Ref returns a reference to the pool: each message that is sent to it goes to one worker. Monitor,
// Link, Stop, Drain and Kill act on the pool's supervisor, and so on the whole pool.
func (p *Pool[M]) Ref() Ref[M] { return Ref[M]{p} }

// Workers returns references to the workers, by number. The slice is the caller's.
func (p *Pool[M]) Workers() []Ref[M] { return p.router.Routes() }

// Supervisor returns the supervisor of the workers. Their names are worker-0 and so on.
func (p *Pool[M]) Supervisor() Supervisor { return p.sup }

// Resize changes the number of workers: it starts workers with the next numbers, or stops those
// with the highest. A worker that is stopped handles the messages in its mailbox first, as long as
// its Grace allows, and Resize waits for that; the supervisor handles nothing else meanwhile. A
// message that is sent at that moment may find its worker ended: Send fails with Closed. One call
// of Resize runs at a time, others wait for it as their ctx allows.
//
// Resize fails with Invalid if workers is below 1 or above [MaxWorkers], and with the errors of
// [Supervisor.Start]. The number of workers is between the old and the new one then; after Canceled
// one more worker may still start or stop. Like the calls of [Supervisor], it must not be used by a
// worker that starts or stops.
func (p *Pool[M]) Resize(ctx context.Context, workers int) error {
	if err := checkWorkers(workers); err != nil {
		return err
	}
	select {
	case p.resizing <- struct{}{}:
		defer func() { <-p.resizing }()
	case <-ctx.Done():
		return fault("resize", p.address(), endOf(ctx, time.Time{}, "other calls of Resize"))
	}
	for p.size() != workers {
		if err := p.sup.call(ctx, func(s *supervisor) error { return p.step(s, workers) }); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pool[M]) size() int { return len(*p.router.routes.Load()) }

// step starts or stops one worker, in the turn of the supervisor, if there are not as many as wanted.
// It counts them itself: a step before it, for which a Resize did not wait to the end, may have
// changed the number.
func (p *Pool[M]) step(s *supervisor, workers int) error {
	n := p.size()
	switch {
	case n < workers:
		return s.start(p.worker(n))
	case n > workers:
		p.dismiss(s, n-1)
	}
	return nil
}

// dismiss drains and stops worker i, which must be the last one. It takes the worker from the
// router first, so that no message is sent to it any more.
func (p *Pool[M]) dismiss(s *supervisor, i int) {
	p.router.change(func(routes []Ref[M]) []Ref[M] { return routes[:i] })
	e := s.byName["worker-"+strconv.Itoa(i)]
	if e == nil {
		return // it was removed from the supervisor
	}
	if e.core != nil {
		e.core.conclude(true)
		s.detach(e, ended)
	}
	s.halt(e)
	s.remove(e)
}

func (p *Pool[M]) put(ctx context.Context, prio Priority, e envelope[M]) error {
	return p.router.put(ctx, prio, e)
}

func (p *Pool[M]) offer(ctx context.Context, e envelope[M]) (runnable, rest, error) {
	if p.sup.ref.core().gone() {
		return nil, rest{}, ErrStopped
	}
	return p.router.offer(ctx, e)
}

func (p *Pool[M]) address() Address { return p.sup.ref.Address() }
func (p *Pool[M]) local() *core     { return p.sup.ref.core() }
func (p *Pool[M]) asks() *askPools  { return &p.router.asked }

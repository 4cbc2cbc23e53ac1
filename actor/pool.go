package actor

import (
	"context"
	"runtime"
	"strconv"
	"sync"
)

// MaxWorkers is how many workers a [Pool] can have.
const MaxWorkers = 10_000

// PoolOptions say what a pool is; nil means the defaults.
type PoolOptions[M any] struct {
	// Name registers the pool's supervisor. Default: none.
	Name string
	// Workers is how many there are. Default: GOMAXPROCS.
	Workers int
	// Routing says which worker gets a message. Default [RoundRobin].
	Routing Routing
	// Key is for [ByKey]. It is called by the senders' goroutines.
	Key func(M) string
	// Worker says how the workers run and when they are restarted. Options.Name must be empty and
	// Options.Idle 0. With a bounded mailbox and [Block], the whole pool pushes back: Send waits
	// when all workers have enough to do.
	Worker ChildOptions
	// Limit and Backoff are those of the pool's supervisor, for workers without their own.
	Limit   Limit
	Backoff Backoff
}

// Pool is a number of workers that do the same, restarted by a supervisor when
// they fail, behind one reference. It is safe for concurrent use.
type Pool[M any] struct {
	router *Router[M]
	sup    Supervisor
	worker func(i int) Child

	mu sync.Mutex // held by Resize
	n  int        // workers
}

// NewPool starts a pool: a supervisor, spawned from s, with workers that fresh
// makes. It fails with Invalid if the options do not fit, or with the error of a worker's Start.
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
	p := &Pool[M]{router: router, n: opts.Workers}
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

// follow gives the router each new actor of worker i.
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

// Ref returns a reference to the pool: each message that is sent to it goes to one
// worker. To monitor, link, stop or drain it is to do so with the pool's supervisor,
// and so with the whole pool.
func (p *Pool[M]) Ref() Ref[M] { return Ref[M]{p} }

// Workers returns the workers, which may be sent to one by one. The slice is the caller's.
func (p *Pool[M]) Workers() []Ref[M] { return p.router.Routes() }

// Supervisor returns the supervisor of the workers. Their names are worker-0 and so on.
func (p *Pool[M]) Supervisor() Supervisor { return p.sup }

// Resize changes the number of workers. New ones come at the end, and those at the
// end go: they handle what is in their mailboxes first, as long as their Grace allows.
// Resize waits for that. A message that is on its way to a worker at that moment may
// come too late: its Send fails with Closed.
//
// If it fails, the number is somewhere between the old and the new one. Like the
// calls of [Supervisor], it must not be used by a worker that starts or stops.
func (p *Pool[M]) Resize(ctx context.Context, workers int) error {
	if err := checkWorkers(workers); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.n < workers {
		if err := p.sup.Start(ctx, p.worker(p.n)); err != nil {
			return err
		}
		p.n++
	}
	for p.n > workers {
		if err := p.dismiss(ctx, p.n-1); err != nil {
			return err
		}
		p.n--
	}
	return nil
}

// dismiss drains and stops worker i, the last one.
func (p *Pool[M]) dismiss(ctx context.Context, i int) error {
	return p.sup.withChild(ctx, "worker-"+strconv.Itoa(i), func(s *supervisor, e *entry) error {
		p.router.change(func(routes []Ref[M]) []Ref[M] { return routes[:min(i, len(routes))] })
		if e.core != nil {
			e.core.conclude(true)
			s.detach(e, ended)
		}
		s.halt(e)
		s.remove(e)
		return nil
	})
}

func (p *Pool[M]) put(ctx context.Context, prio Priority, e envelope[M]) error {
	return p.router.put(ctx, prio, e)
}

func (p *Pool[M]) offer(ctx context.Context, e envelope[M]) (runnable, error) {
	if p.sup.ref.core().gone() {
		return nil, ErrStopped
	}
	return p.router.offer(ctx, e)
}

func (p *Pool[M]) address() Address { return p.sup.ref.Address() }
func (p *Pool[M]) local() *core     { return p.sup.ref.core() }
func (p *Pool[M]) asks() *askPools  { return &p.router.asked }

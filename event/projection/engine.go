package projection

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// Options tune an [Engine]. Nil and zero fields mean the defaults.
type Options struct {
	Logger *slog.Logger // default slog.Default
	// RestartAfter is the pause before a projection that has failed starts again from its checkpoint; it
	// doubles with each failure, up to a minute. Default 1 s; negative: it stays as it is until
	// [Engine.Restart].
	RestartAfter time.Duration
	// TTL is how long after the end of a process, if it could not say so, its partitions go to others. It
	// must be longer than the log may be unreachable without that. Default [lease.DefaultTTL], 10 s.
	TTL time.Duration
}

// Async tunes how a projection follows the store. Nil and zero fields mean the defaults.
type Async struct {
	// After and Tail say where a projection without a checkpoint begins: after a position, or
	// after the newest event. Default: at the first event.
	After mainstem.Position
	Tail  bool
	// Partitions divides the streams into so many parts, 1 to [event.MaxPartitions], each with a checkpoint of its
	// own, and shares them among the engines that run the projection: each has about as many. The events of one
	// stream stay in their order; those of different streams may be handled in another order than the
	// log's. Another number than before replaces that, for all engines; the one that starts last
	// decides. Default: as many as there are, at first 1.
	Partitions int
	// MaxBatch is the most events of one commit. Default 100.
	MaxBatch int
	// Attempts, Backoff, MaxBackoff and OnPoison are those of [event.SubscribeOptions].
	Attempts            int
	Backoff, MaxBackoff time.Duration
	OnPoison            event.PoisonPolicy
	// Durability of the commits. Default [mainstem.OS]: what a power cut takes back is handled
	// again, effects and checkpoint together.
	Durability mainstem.Durability
}

// conflicts is how often a commit is tried anew because of what it has read: between projections that
// change one row somebody always succeeds.
const conflicts = 1000

// Engine runs projections of one store. Several engines, in this process or in others, may run the same
// ones: each event takes effect once, and when one engine ends another goes on. It is safe for
// concurrent use.
type Engine struct {
	store    *event.Store
	types    *event.Types
	opts     Options
	controls controls
	leases   keepers
	swept    chan struct{} // there may be tables to remove; has room for one

	mu      sync.Mutex // guards the fields below
	units   map[string]*unit
	started bool
	cancel  context.CancelFunc // ends the watch of the control rows; nil before Start
	wg      sync.WaitGroup     // units and the watch
}

// Open returns an engine for the events of store. Nothing runs before [Engine.Start].
func Open(store *event.Store, types *event.Types, o *Options) (*Engine, error) {
	if store == nil || types == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "open projections", "the store or the types are nil")
	}
	c, err := openControls(store.Log(), store.Name())
	if err != nil {
		return nil, err
	}
	e := &Engine{store: store, types: types, controls: c, units: make(map[string]*unit), swept: make(chan struct{}, 1)}
	if o != nil {
		e.opts = *o
	}
	if e.opts.Logger == nil {
		e.opts.Logger = slog.Default()
	}
	if e.opts.RestartAfter == 0 {
		e.opts.RestartAfter = time.Second
	}
	return e, nil
}

// Register adds a projection, before Start. A second one of the same name is Exists.
func (e *Engine) Register(p *Projection, o *Async) error {
	if o == nil {
		o = &Async{}
	}
	return e.register(p, o, nil)
}

func (e *Engine) register(p *Projection, o *Async, live *Live) error {
	switch {
	case p == nil:
		return mainstem.Refusef(mainstem.KindInvalid, "register projection", "the projection is nil")
	case o.Partitions < 0 || o.Partitions > event.MaxPartitions:
		return mainstem.Refusef(mainstem.KindInvalid, "register projection", "%s: Partitions is %d: want 1 to %d, or 0 (as many as there are)",
			p.name, o.Partitions, event.MaxPartitions)
	case p.target != nil && live != nil:
		return mainstem.Refusef(mainstem.KindInvalid, "register projection", "%s: it has a target, which a live projection cannot write", p.name)
	case p.target != nil && len(p.tables) > 0:
		return mainstem.Refusef(mainstem.KindInvalid, "register projection",
			"%s: it has a target, which is not built beside as its tables are: open them with readmodel.Open, without WithTables", p.name)
	case p.filter.Partitions != 0 || p.filter.Partition != 0:
		return mainstem.Refusef(mainstem.KindInvalid, "register projection", "%s: its filter selects a partition: use Async.Partitions", p.name)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.started:
		return mainstem.Refusef(mainstem.KindInvalid, "register projection", "%s: the engine has been started", p.name)
	case e.units[p.name] != nil:
		return mainstem.Refusef(mainstem.KindExists, "register projection", "%s", p.name)
	}
	so := e.subscribeOptions(p, o)
	if err := so.Validate(); err != nil {
		return err
	}
	u := newUnit(e, p, so)
	u.partitions, u.live = o.Partitions, live
	e.units[p.name] = u
	return nil
}

func (e *Engine) subscribeOptions(p *Projection, o *Async) *event.SubscribeOptions {
	so := &event.SubscribeOptions{
		Filter: p.filter, After: o.After, Tail: o.Tail, MaxBatch: o.MaxBatch, Durability: o.Durability, Conflicts: conflicts,
		Attempts: o.Attempts, Backoff: o.Backoff, MaxBackoff: o.MaxBackoff, OnPoison: o.OnPoison, Logger: e.opts.Logger,
	}
	if so.Durability == mainstem.DefaultDurability {
		so.Durability = mainstem.OS
	}
	return so
}

// Start starts all projections. They run until [Engine.Stop] or until ctx ends, which ends
// them at once; a projection that fails does not end the others.
func (e *Engine) Start(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		return mainstem.Refusef(mainstem.KindInvalid, "start projections", "the engine has been started")
	}
	e.started = true
	watching, cancel := context.WithCancel(ctx)
	e.cancel = cancel
	var units sync.WaitGroup
	for _, u := range e.units {
		units.Go(func() { u.run(ctx) })
	}
	e.wg.Go(func() { units.Wait(); e.closeKeeper() })
	e.wg.Go(func() { e.watch(watching) })
	e.wg.Go(func() { e.sweep(watching) })
	return nil
}

// watch wakes units whose control rows have changed.
func (e *Engine) watch(ctx context.Context) {
	retry := backoff.Policy{First: 50 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}
	for failures := 1; ; failures++ {
		for entry, err := range e.controls.table.Watch(ctx, nil) {
			if err != nil && ctx.Err() == nil {
				e.opts.Logger.Warn("projections cannot watch their control rows", "store", e.store.Name(), "error", err)
				break
			}
			if err == nil {
				failures = 0
				e.notify(entry.Key)
			}
		}
		if !retry.Wait(ctx, failures) {
			return
		}
	}
}

func (e *Engine) notify(name string) {
	e.mu.Lock()
	u := e.units[name]
	e.mu.Unlock()
	if u != nil {
		wake.Signal(u.woken)
	}
}

// Stop lets the projections finish the commits that they are at, ends them and waits, no longer than
// ctx lasts. The engine cannot be started again.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	e.started = true
	cancel := e.cancel
	units := slices.Collect(maps.Values(e.units))
	e.mu.Unlock()
	if cancel == nil {
		e.closeKeeper()
		return nil
	}
	for _, u := range units {
		u.leave()
	}
	cancel()
	done := make(chan struct{})
	go func() { e.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return mainstem.Ended(ctx, "stop projections", time.Time{}, "the handlers under way")
	}
}

func (e *Engine) unit(name string) (*unit, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if u := e.units[name]; u != nil {
		return u, nil
	}
	return nil, mainstem.Refusef(mainstem.KindNotFound, "projection", "%q is not registered with this engine", name)
}

// Pause stops a projection, in whatever processes it runs, until [Engine.Resume]: when it
// returns, nothing more is committed by it. It need not be registered here, but must have been started once.
func (e *Engine) Pause(ctx context.Context, name string) error {
	return e.controls.change(ctx, name, func(c *control) error { c.Paused = true; return nil })
}

// Resume lets a projection that was paused go on from its checkpoint.
func (e *Engine) Resume(ctx context.Context, name string) error {
	return e.controls.change(ctx, name, func(c *control) error { c.Paused = false; return nil })
}

// Restart lets a projection begin anew from its checkpoint, in whatever processes it runs: after a fault
// for example. It never goes back to the first event; see Rebuild.
func (e *Engine) Restart(ctx context.Context, name string) error {
	return e.controls.change(ctx, name, func(c *control) error { c.Restarts++; return nil })
}

// WaitFor returns when a projection has handled everything up to a position, in all its partitions, wherever they
// run: read your writes. See [event.Store.WaitFor]. One of this engine that has not begun yet is waited for.
func (e *Engine) WaitFor(ctx context.Context, name string, p mainstem.Position) error {
	for n := 1; ; n++ {
		before, _, known, err := e.controls.get(ctx, name)
		if err != nil {
			return err
		}
		err = e.waitForAll(ctx, subscriptions(name, 0, before.partitions()), p)
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
		if _, unknown := e.unit(name); unknown != nil && !known {
			return unknown
		}
		now, _, _, geterr := e.controls.get(ctx, name)
		if geterr != nil {
			return geterr
		}
		if err == nil && now.Epoch == before.Epoch { // otherwise these were not all the partitions
			return nil
		}
		if !again.Wait(ctx, n) {
			return mainstem.Ended(ctx, "projection "+name, time.Time{}, "its first checkpoint")
		}
	}
}

func (e *Engine) waitForAll(ctx context.Context, subscriptions []string, p mainstem.Position) error {
	for _, name := range subscriptions {
		if err := e.store.WaitFor(ctx, name, p); err != nil {
			return err
		}
	}
	return nil
}

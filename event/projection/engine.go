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

// Options configure an [Engine]. Nil and zero fields mean the defaults.
type Options struct {
	Logger *slog.Logger // default slog.Default
	// RestartAfter is the pause before a projection that has failed is started again from its
	// checkpoint. It doubles with each failure, up to a minute or RestartAfter, whichever is
	// longer. Default 1 s; negative: it stays faulted until [Engine.Restart].
	RestartAfter time.Duration
	// TTL is the time after which the partitions of a process that ended without releasing them go
	// to other engines. An engine that cannot reach the log for that long loses its partitions.
	// Default [lease.DefaultTTL], 10 s.
	TTL time.Duration
}

// Async configures how a projection follows the store. Nil and zero fields mean the defaults.
type Async struct {
	// After and Tail say where a projection without a checkpoint begins: after a position, or after
	// the newest event. Default: at the first event.
	After mainstem.Position
	Tail  bool
	// Partitions is the number of partitions of the streams, 1 to [event.MaxPartitions]. Each has a
	// checkpoint of its own; the engines that run the projection share them evenly. The events of
	// one stream stay in order; those of different streams may be handled in another order than the
	// log's. If the number differs from the present one it replaces it for all engines: the engine
	// that started last decides. While the projection is paused, the change may wait for Resume or
	// for a rebuild. Parked events move to the subscriptions of their streams. Default: the present
	// number, at first 1.
	Partitions int
	// MaxBatch is the maximum number of events in one commit. Default 100.
	MaxBatch int
	// Attempts, Backoff, MaxBackoff and OnPoison are those of [event.SubscribeOptions].
	Attempts            int
	Backoff, MaxBackoff time.Duration
	OnPoison            event.PoisonPolicy
	// Durability is that of the commits. Default [mainstem.OS]: events whose commits a power cut
	// undoes are handled again, because the rows and the checkpoint are undone together.
	Durability mainstem.Durability
}

// conflicts is how often events are handled again because a row that was read has changed. It may
// be large: of the commits that conflict one always succeeds, so the repetition ends.
const conflicts = 1000

// Engine runs projections of one store. Several engines, in this process or in others, may run the
// same projections: each event takes effect once, and when one engine ends another continues. It is
// safe for concurrent use.
type Engine struct {
	store    *event.Store
	types    *event.Types
	opts     Options
	controls controls
	leases   keepers       // membership and leases of this engine; begun when they are needed
	swept    chan struct{} // signals sweep that there may be tables to remove; capacity 1

	mu      sync.Mutex         // guards the fields below
	units   map[string]*unit   // by name of the projection; does not change after Start
	started bool               // Start or Stop was called
	cancel  context.CancelFunc // ends watch and sweep; nil before Start
	wg      sync.WaitGroup     // units, watch, sweep and the end of the keeper
}

// Open returns an engine for the events of store. Nothing runs before [Engine.Start]. Nothing is
// read or written.
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

// Register adds a projection. It must be called before Start. A second projection of the same name
// is Exists; options out of range and a projection that cannot run in an engine are Invalid.
func (e *Engine) Register(p *Projection, o *Async) error {
	if o == nil {
		o = &Async{}
	}
	return e.register(p, o, nil)
}

// register adds a projection; live is nil for an asynchronous one.
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

// Start starts all projections. They run until [Engine.Stop], or until ctx ends, which ends them at
// once. A projection that fails does not end the others. Start may be called once.
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

// watch signals units whose control rows have changed.
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

// notify signals the unit called name, if there is one.
func (e *Engine) notify(name string) {
	e.mu.Lock()
	u := e.units[name]
	e.mu.Unlock()
	if u != nil {
		wake.Signal(u.woken)
	}
}

// Stop lets the projections finish their commits under way, ends them and waits for their
// goroutines. If ctx ends first it returns Canceled, and the rest ends later. The engine cannot be
// started again.
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

// unit returns the unit called name, or NotFound.
func (e *Engine) unit(name string) (*unit, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if u := e.units[name]; u != nil {
		return u, nil
	}
	return nil, mainstem.Refusef(mainstem.KindNotFound, "projection", "%q is not registered with this engine", name)
}

// Pause stops a projection in all processes that run it, until [Engine.Resume]. When Pause returns,
// the projection commits nothing more to the log; only a blue/green rebuild continues to build its
// tables. The projection need not be registered with this engine. One that was never started is
// NotFound; an inline one is Unavailable.
func (e *Engine) Pause(ctx context.Context, name string) error {
	return e.controls.change(ctx, name, func(c *control) error { c.Paused = true; return nil })
}

// Resume lets a paused projection continue from its checkpoint. The errors are those of Pause.
func (e *Engine) Resume(ctx context.Context, name string) error {
	return e.controls.change(ctx, name, func(c *control) error { c.Paused = false; return nil })
}

// Restart makes a projection start again from its checkpoint in all processes that run it, for
// example after a fault. It does not go back to the first event; Rebuild does. The errors are those
// of Pause.
func (e *Engine) Restart(ctx context.Context, name string) error {
	return e.controls.change(ctx, name, func(c *control) error { c.Restarts++; return nil })
}

// WaitFor returns when a projection has handled all events up to a position, in all its partitions,
// in whatever processes they run. The rows for a write at that position can then be read. See
// [event.Store.WaitFor]. For a projection of this engine that has no checkpoint yet, WaitFor waits
// for the checkpoint too, and during a rebuild in place until the events are handled again. A live
// projection of this engine has no checkpoint and is Invalid; an inline one is Unavailable, because
// its rows are in the commits of the events.
func (e *Engine) WaitFor(ctx context.Context, name string, p mainstem.Position) error {
	if u, err := e.unit(name); err == nil && u.live != nil {
		return mainstem.Refusef(mainstem.KindInvalid, "wait for projection", "%s: it is live, and has no checkpoint", name)
	}
	for n := 1; ; n++ {
		before, _, known, err := e.controls.get(ctx, name)
		if err == nil && before.Inline {
			err = errInline(name)
		}
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
		// Another epoch means that the partitions were replaced meanwhile. During a rebuild in place the
		// checkpoints are those of rows that may have been removed.
		if err == nil && now.Epoch == before.Epoch && !now.Rebuilding {
			return nil
		}
		if !again.Wait(ctx, n) {
			what := "its first checkpoint"
			if now.Rebuilding {
				what = "an engine that removes its rows and handles the events again"
			}
			return mainstem.Ended(ctx, "projection "+name, time.Time{}, what)
		}
	}
}

// waitForAll waits for subscriptions, one after the other.
func (e *Engine) waitForAll(ctx context.Context, subscriptions []string, p mainstem.Position) error {
	for _, name := range subscriptions {
		if err := e.store.WaitFor(ctx, name, p); err != nil {
			return err
		}
	}
	return nil
}

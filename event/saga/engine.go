package saga

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/lease"
)

// Options configure an [Engine]. Nil and zero fields mean the defaults.
type Options struct {
	Logger *slog.Logger // default: slog.Default()
	// Workers is the largest number of commands that the engine carries out at a time for one type
	// of sagas, at most one for each saga. Default 8.
	Workers int
	// Attempts is how often a command is tried whose errors may be transient (see Passing), and how
	// often the handler of a timeout is called that returns errors. Then the saga fails. Default
	// 10. Errors of kind Unavailable or Closed, unknown outcomes, and commands without a handler do
	// not count: they are tried again without end.
	Attempts int
	// Backoff is the pause after the first failure of a command or timeout; it doubles with each
	// further one, up to MaxBackoff. Defaults 50 ms and 30 s.
	Backoff, MaxBackoff time.Duration
	// Passing reports whether the error of a command may be transient. Default: conflicts, except
	// with a stream that takes no events any more, deadlines, and panics. All other errors are
	// refusals at once.
	Passing func(error) bool
	// RestartAfter is the pause before a subscription that has failed, such as by a poison event,
	// starts again from its checkpoint. It doubles with each failure, up to a minute. Default 1 s.
	RestartAfter time.Duration
	// Keeper, if set, lets one engine at a time carry out the commands and timeouts of a type: the
	// one that holds the lease saga/STORE/TYPE. Without it, all engines try, and the conditions of
	// the commits let one succeed. Each command takes effect once in both cases, but a lease avoids
	// calls of handlers whose commits fail.
	Keeper *lease.Keeper
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Logger == nil {
		out.Logger = slog.Default()
	}
	orElse(&out.Workers, 8)
	orElse(&out.Attempts, 10)
	orElse(&out.Backoff, 50*time.Millisecond)
	orElse(&out.MaxBackoff, 30*time.Second)
	orElse(&out.RestartAfter, time.Second)
	if out.Passing == nil {
		out.Passing = passing
	}
	return out
}

// orElse sets *v to other unless it is positive.
func orElse[N int | time.Duration](v *N, other N) {
	if *v <= 0 {
		*v = other
	}
}

// passing is the default of [Options.Passing].
func passing(err error) bool {
	var sealed *event.SealedError
	var panicked *command.PanicError
	return errors.Is(err, mainstem.ErrConflict) && !errors.As(err, &sealed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.As(err, &panicked)
}

// Follow configures how the sagas of one type follow the store. Nil and zero fields mean the
// defaults.
type Follow struct {
	// After and Tail say where a type without a checkpoint begins: after a position, or after the
	// newest event. Default: at the first event, so all past events are handled.
	After mainstem.Position
	Tail  bool
	// MaxBatch is the largest number of events in one commit. Default 100.
	MaxBatch int
	// Attempts, Backoff, MaxBackoff and OnPoison are those of [event.SubscribeOptions]. With
	// [event.StopOnPoison], the default, an event that cannot be handled stops the events and
	// timeouts of the type; it is tried again after [Options.RestartAfter]. With [event.ParkPoison]
	// it is parked; see [Engine.RetryParked].
	Attempts            int
	Backoff, MaxBackoff time.Duration
	OnPoison            event.PoisonPolicy
	// Keep is how long completed and compensated sagas stay after their last step, KeepFailed how
	// long those that are failed or compensation_failed do. Then an engine removes them; see
	// [Records.Prune]. Default 0: without end.
	Keep, KeepFailed time.Duration
	// Durability of the commits of the type. Default: the log's. With less, a command may call
	// another service before the step that sent it is durable.
	Durability mainstem.Durability
}

// Engine runs sagas on the events of one store and the commands of one bus, which are on one log.
// Several engines, in one process or in several, may run the same types. All methods may be called
// from many goroutines.
type Engine struct {
	*Records
	events *event.Store
	types  *event.Types
	bus    *command.Bus
	opts   Options

	mu      sync.Mutex // guards the fields below
	units   []*unit
	started bool
	stop    context.CancelFunc // ends the engine after the work under way; nil before Start
	abort   context.CancelFunc // cancels the work under way too
	wg      sync.WaitGroup
}

// Open returns an engine. It starts nothing; see [Engine.Start]. If the bus and the store are on
// different logs, the error is Invalid: a commit of the bus could not remove the command from the
// inbox.
func Open(store *event.Store, types *event.Types, bus *command.Bus, o *Options) (*Engine, error) {
	if store == nil || types == nil || bus == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "open sagas", "the store, the types or the bus are nil")
	}
	if bus.Log() != store.Log() {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "open sagas", "bus %s is on another log than store %s", bus.Name(), store.Name())
	}
	r, err := OpenRecords(store.Log(), store.Name())
	if err != nil {
		return nil, err
	}
	return &Engine{Records: r, events: store, types: types, bus: bus, opts: o.withDefaults()}, nil
}

// Register adds a type of sagas. It must be called before [Engine.Start]. The error is Invalid if
// an event of the type is not registered in the types or the bus has no handler for one of its
// commands, and Exists for a second type of the same name.
func (e *Engine) Register(s *Saga, o *Follow) error {
	const op = "register saga"
	if s == nil {
		return mainstem.Refusef(mainstem.KindInvalid, op, "the saga is nil")
	}
	if o == nil {
		o = &Follow{}
	}
	filter, err := s.selected(e.types)
	if err != nil {
		return err
	}
	handled := e.bus.Types()
	for name := range s.sends {
		if !slices.Contains(handled, name) {
			return mainstem.Refusef(mainstem.KindInvalid, op, "%s sends the command %s, for which bus %s has no handler: register that first", s.name, name, e.bus.Name())
		}
	}
	if o.Keep < 0 || o.KeepFailed < 0 {
		return mainstem.Refusef(mainstem.KindInvalid, op, "%s: sagas that have ended are to stay for %v and %v: want 0 (without end) or more", s.name, o.Keep, o.KeepFailed)
	}
	so := &event.SubscribeOptions{
		Filter: filter, After: o.After, Tail: o.Tail, MaxBatch: o.MaxBatch, Durability: o.Durability, Conflicts: conflicts,
		Attempts: o.Attempts, Backoff: o.Backoff, MaxBackoff: o.MaxBackoff, OnPoison: o.OnPoison, Logger: e.opts.Logger,
	}
	if err := so.Validate(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.started:
		return mainstem.Refusef(mainstem.KindInvalid, op, "%s: the engine has been started", s.name)
	case slices.ContainsFunc(e.units, func(u *unit) bool { return u.saga.name == s.name }):
		return mainstem.Refusef(mainstem.KindExists, op, "%s", s.name)
	}
	e.units = append(e.units, newUnit(e, s, so, o.retentions()))
	return nil
}

// Start starts all registered types. They run until [Engine.Stop], or until ctx ends, which also
// cancels the handlers and commands under way. An engine can be started once.
func (e *Engine) Start(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		return mainstem.Refusef(mainstem.KindInvalid, "start sagas", "the engine has been started")
	}
	e.started = true
	hard, abort := context.WithCancel(ctx)
	soft, stop := context.WithCancel(hard)
	e.abort, e.stop = abort, stop
	for _, u := range e.units {
		e.wg.Go(func() { u.run(hard, soft) })
	}
	return nil
}

// Stop ends the engine. It lets the handlers and commands under way finish and commit. If ctx ends
// first, their contexts are cancelled, and the error is that of ctx. Stop returns when all of them
// have returned, in both cases. An engine that was stopped cannot be started again; another one
// continues its work.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	e.started = true
	stop, abort := e.stop, e.abort
	e.mu.Unlock()
	if stop == nil {
		return nil
	}
	defer abort()
	stop()
	inTime := context.AfterFunc(ctx, abort)
	e.wg.Wait()
	if !inTime() {
		return mainstem.Ended(ctx, "stop sagas", time.Time{}, "the handlers and commands under way")
	}
	return nil
}

// unit returns the unit of a type, or NotFound.
func (e *Engine) unit(saga string) (*unit, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, u := range e.units {
		if u.saga.name == saga {
			return u, nil
		}
	}
	return nil, mainstem.Refusef(mainstem.KindNotFound, "saga", "%.60q is not registered with this engine", saga)
}

// WaitFor returns when the sagas of a type have handled all events up to p, in whatever process.
// Their commands may still wait. If this engine has the type, and no engine has started it yet,
// WaitFor waits for that too. A p beyond the newest position of the log is Invalid.
func (e *Engine) WaitFor(ctx context.Context, saga string, p mainstem.Position) error {
	begin := backoff.Policy{First: time.Millisecond, Max: 100 * time.Millisecond, Jitter: 0.5}
	for n := 1; ; n++ {
		err := e.events.WaitFor(ctx, subscription(saga), p)
		if !errors.Is(err, mainstem.ErrNotFound) {
			return err
		}
		if _, unknown := e.unit(saga); unknown != nil {
			return err
		}
		if !begin.Wait(ctx, n) {
			return mainstem.Ended(ctx, "saga "+saga, time.Time{}, "its first checkpoint")
		}
	}
}

// RetryParked handles again the parked events of a type, in the order of the log, and returns how
// many were handled; see [event.Store.RetryParked]. While the type is paused, the error is of kind
// Unavailable.
func (e *Engine) RetryParked(ctx context.Context, saga string) (int, error) {
	u, err := e.unit(saga)
	if err != nil {
		return 0, err
	}
	return e.events.RetryParked(ctx, subscription(saga), func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
		c, is, err := e.control(ctx, saga)
		if err == nil && !c.Paused.IsZero() {
			err = mainstem.Refusef(mainstem.KindUnavailable, "saga", "%s is paused: resume it first", saga)
		}
		if err != nil {
			return err
		}
		e.controls.ExpectTo(b, saga, is)
		s, err := u.handle(ctx, b, []event.Recorded{ev})
		if err == nil {
			u.countEvents(s)
		}
		return err
	})
}

// Stats are the numbers of one type since the engine was opened, in this engine only. They count
// work that has succeeded, once, shortly after its commit. A commit whose outcome was unknown is not
// counted. Events that [Engine.RetryParked] handles are counted before their commits.
type Stats struct {
	Saga     string
	Handled  uint64 // events for sagas that were started or running, start events included
	Ignored  uint64 // events for sagas that were neither started nor running
	Early    uint64 // events whose saga did not exist
	Commands uint64 // commands that were carried out, compensations included
	Refused  uint64 // commands that were refused
	Timeouts uint64 // timeouts that were handled
	Failures uint64 // failed attempts of steps and commands
	Removed  uint64 // sagas that were removed; see Follow.Keep
	Paused   bool   // see Records.Pause
	Err      error  // why the subscription has failed; nil if it runs or was not started
}

// Stats returns the numbers of all registered types, ordered by name.
func (e *Engine) Stats() []Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Stats
	for _, u := range e.units {
		u.mu.Lock()
		s := u.stats
		_, on := u.gate.get()
		s.Paused = !on
		out = append(out, s)
		u.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b Stats) int { return strings.Compare(a.Saga, b.Saga) })
	return out
}

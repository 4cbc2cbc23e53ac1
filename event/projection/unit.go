package projection

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/kv"
)

// again is the pause before something is tried anew that others, or the log, kept from succeeding.
var again = backoff.Policy{First: time.Millisecond, Max: time.Second, Jitter: 0.5}

// unit is a projection of an engine: one goroutine that does what its control row says, with those of
// a [generation].
type unit struct {
	e          *Engine
	p          *Projection
	opts       *event.SubscribeOptions
	partitions int   // that were asked for; 0: as many as there are
	live       *Live // not nil for a projection without a checkpoint

	woken   chan struct{} // its control row may have changed; has room for one
	leaving chan struct{} // closed when the engine stops
	left    sync.Once

	asked atomic.Bool // for the partitions: the control row has said so since this engine started

	mu struct {
		sync.Mutex
		state   State // of the whole; Running: that of its parts counts
		err     error
		parts   []*part
		handled uint64
		faults  uint64
		dropped uint64
		busy    time.Duration // of the handlers
		last    time.Time
	}
}

func newUnit(e *Engine, p *Projection, opts *event.SubscribeOptions) *unit {
	return &unit{e: e, p: p, opts: opts, woken: make(chan struct{}, 1), leaving: make(chan struct{})}
}

func (u *unit) leave() { u.left.Do(func() { close(u.leaving) }) }

func (u *unit) set(s State, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.state, u.mu.err = s, err
}

func (u *unit) over(ctx context.Context) bool {
	select {
	case <-u.leaving:
		return true
	default:
		return ctx.Err() != nil
	}
}

// run keeps the projection running as its control row says.
func (u *unit) run(ctx context.Context) {
	defer u.set(Stopped, nil)
	for failures := 0; !u.over(ctx); {
		ctl, is, err := u.enter(ctx)
		if err == nil {
			failures = 0
			u.follow(ctx, ctl, is)
			continue
		}
		if u.over(ctx) {
			return
		}
		failures++
		u.set(Faulted, err)
		u.e.opts.Logger.Error("a projection cannot read what it is to do", "store", u.e.store.Name(), "projection", u.p.name, "error", err)
		u.pause(ctx, again, failures)
	}
}

// pause waits, but not when the engine stops.
func (u *unit) pause(ctx context.Context, p backoff.Policy, n int) {
	backoff.SleepOr(ctx, u.leaving, p.Delay(n))
}

// follow does what a control row says until it has changed, or the engine stops.
func (u *unit) follow(ctx context.Context, ctl control, is kv.Condition) {
	g := newGeneration(ctx, u, ctl, is)
	defer g.end()
	g.begin()
	for {
		select {
		case <-u.woken:
			for n := 1; !u.over(ctx); n++ {
				now, _, _, err := u.e.controls.get(ctx, u.p.name)
				if err == nil && (now != ctl || g.isEnded()) {
					// The engine that made the change need not know it: that it is seen there ends its commit.
					if now.Build != ctl.Build {
						wake.Signal(u.e.swept) // there may be tables to remove
					}
					return
				}
				if err == nil {
					break
				}
				u.pause(ctx, again, n)
			}
		case <-u.leaving:
			g.wait() // commits under way are finished
			return
		case <-ctx.Done():
			return
		}
	}
}

// enter returns the control row as it is to be followed, and the condition that it is still that. It
// writes it if there is none, or if it does not say what the projection can do or asks for.
func (u *unit) enter(ctx context.Context) (control, kv.Condition, error) {
	for n := 1; ; n++ {
		ctl, is, found, err := u.e.controls.get(ctx, u.p.name)
		if err != nil {
			return ctl, is, err
		}
		b := mainstem.NewBatch()
		next := ctl
		if !found {
			next.Version, next.Partitions = u.p.version, u.partitions
			if err := u.create(ctx, b, next.partitions()); err != nil {
				return ctl, is, err
			}
		}
		u.describe(&next)
		decided := u.request(&next)
		if found && next == ctl {
			u.asked.Store(decided)
			return ctl, is, nil
		}
		u.e.controls.table.PutTo(b, u.p.name, next, is)
		switch _, err = u.e.store.Log().Commit(ctx, b); {
		case err == nil:
			u.asked.Store(decided)
		case mainstem.KindOf(err) != mainstem.KindConflict:
			return ctl, is, err
		case !again.Wait(ctx, n):
			return ctl, is, ctx.Err()
		}
	}
}

// create writes the first checkpoints of partitions: they must begin at the same place.
func (u *unit) create(ctx context.Context, b *mainstem.Batch, n int) error {
	if n <= 1 || u.live != nil {
		return nil // the subscription itself writes it
	}
	at, err := u.beginning(ctx)
	if err != nil {
		return err
	}
	for _, name := range subscriptions(u.p.name, 0, n) {
		u.e.store.SetCheckpointTo(b, name, at)
	}
	return nil
}

// beginning returns where the projection begins if it has no checkpoint.
func (u *unit) beginning(ctx context.Context) (mainstem.Position, error) {
	if u.opts.Tail {
		return u.e.store.Log().Head(ctx)
	}
	return u.opts.After, nil
}

// describe notes in the row what a rebuild can do; only the handlers that are in use know that.
func (u *unit) describe(ctl *control) {
	if ctl.Version == u.p.version || ctl.NextVersion == u.p.version || ctl.Next == 0 && u.p.version > ctl.Version {
		ctl.Tables, ctl.Clears = strings.Join(u.p.tableNames(), ","), u.p.clear != nil || len(u.p.tables) > 0
	}
}

// request asks once for the number of partitions that the engine was given: the engine that starts last decides.
// It is false if a change that is under way has to be waited for.
func (u *unit) request(ctl *control) (decided bool) {
	switch {
	case u.asked.Load():
		return true
	case ctl.Frozen || ctl.Aligning:
		return false
	case u.partitions == 0 || u.partitions == ctl.then():
		return true
	}
	ctl.Resize = u.partitions
	// Otherwise it is done together with what is under way.
	ctl.Frozen = ctl.Next == 0 && !ctl.Rebuilding
	u.e.opts.Logger.Info("a projection is to have another number of partitions",
		"store", u.e.store.Name(), "projection", u.p.name, "from", ctl.partitions(), "to", u.partitions)
	return true
}

func (u *unit) add(p *part) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.parts = append(u.mu.parts, p)
}

func (u *unit) remove(p *part) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.parts = slices.DeleteFunc(u.mu.parts, func(other *part) bool { return other == p })
}

// note counts events that the handlers have handled.
func (u *unit) note(evs []event.Recorded, took time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.handled += uint64(len(evs))
	u.mu.busy += took
	u.mu.last = evs[len(evs)-1].Time
}

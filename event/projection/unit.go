package projection

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/kv"
)

// again is the pause before a step that failed because of other engines or of the log is repeated.
var again = backoff.Policy{First: time.Millisecond, Max: time.Second, Jitter: 0.5}

// unit is a projection that is registered with an engine. Its goroutine follows the control row:
//
//  1. enter reads the row, and writes it if there is none or if this engine has something to add.
//  2. follow runs a generation, which does what the row says.
//  3. When the row has changed, the generation is ended, and the unit begins again with 1.
type unit struct {
	e          *Engine
	p          *Projection
	opts       *event.SubscribeOptions // of its subscriptions, without what differs between them
	partitions int                     // the requested number; 0: any
	live       *Live                   // nil for an asynchronous projection

	woken   chan struct{} // signals that the control row may have changed; capacity 1
	leaving chan struct{} // closed by leave, when the engine stops
	left    sync.Once     // guards the closing of leaving

	// asked is true once the requested number of partitions is in the control row, so that it is
	// requested only once for each start. described is the same for the rebuilds that are possible.
	asked, described atomic.Bool

	mu struct {
		sync.Mutex
		state   State         // of the unit; if it is Running or Rebuilding, the states of parts count
		err     error         // why the state is Faulted
		parts   []*part       // subscriptions that run in this engine
		handled uint64        // number of events; repetitions count
		faults  uint64        // failures of subscriptions
		dropped uint64        // events that a live projection has left out
		busy    time.Duration // total time of the handlers
		last    time.Time     // commit time of the event that was handled last
	}
}

func newUnit(e *Engine, p *Projection, opts *event.SubscribeOptions) *unit {
	return &unit{e: e, p: p, opts: opts, woken: make(chan struct{}, 1), leaving: make(chan struct{})}
}

// leave signals the goroutines of the unit to finish their commits and to end.
func (u *unit) leave() { u.left.Do(func() { close(u.leaving) }) }

// set sets the state of the unit.
func (u *unit) set(s State, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.state, u.mu.err = s, err
}

// over reports whether the unit is to end.
func (u *unit) over(ctx context.Context) bool {
	select {
	case <-u.leaving:
		return true
	default:
		return ctx.Err() != nil
	}
}

// run follows the control row until the unit is to end.
func (u *unit) run(ctx context.Context) {
	defer u.set(Stopped, nil)
	var last *control // the row that was followed last
	for failures := 0; !u.over(ctx); {
		ctl, is, err := u.enter(ctx)
		if err == nil {
			failures = 0
			if last == nil || ctl.leaves(last) {
				wake.Signal(u.e.swept)
			}
			u.follow(ctx, ctl, is)
			last = &ctl
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

// pause waits for the n-th pause of p, or until the unit is to end.
func (u *unit) pause(ctx context.Context, p backoff.Policy, n int) {
	backoff.SleepOr(ctx, u.leaving, p.Delay(n))
}

// follow runs a generation for a control row until the row has changed or the unit is to end. When
// the engine stops, commits under way are finished; when ctx ends, they are cancelled.
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

// enter returns the control row that the unit is to follow, and the condition that it is unchanged.
// It first writes the row if there is none, or to add what this engine requests or can do.
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
		described, decided := u.describe(&next), u.request(&next)
		if found && next == ctl {
			u.described.Store(described)
			u.asked.Store(decided)
			return ctl, is, nil
		}
		u.e.controls.table.PutTo(b, u.p.name, next, is)
		switch _, err = u.e.store.Log().Commit(ctx, b); {
		case err == nil:
			u.described.Store(described)
			u.asked.Store(decided)
		case mainstem.KindOf(err) != mainstem.KindConflict:
			return ctl, is, err
		case !again.Wait(ctx, n):
			return ctl, is, ctx.Err()
		}
	}
}

// create adds the first checkpoints of n partitions to b, so that all begin at one position. With
// one partition the subscription itself writes its checkpoint.
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

// beginning returns the position at which the projection begins if it has no checkpoint.
func (u *unit) beginning(ctx context.Context) (mainstem.Position, error) {
	if u.opts.Tail {
		return u.e.store.Log().Head(ctx)
	}
	return u.opts.After, nil
}

// describe records in the row which rebuilds are possible. An engine does that once for each start,
// and does not replace the description of a newer version: engines that replaced each other's would
// end all generations again and again. While a rebuild with certain handlers is under way, its
// tables are those of the row. describe returns false if it must be called again later.
func (u *unit) describe(ctl *control) (done bool) {
	switch {
	case u.described.Load():
		return true
	case ctl.NextVersion > 0 && ctl.NextVersion != u.p.version, ctl.NextVersion == 0 && u.p.version < max(ctl.Version, ctl.Described):
		return false
	}
	u.p.describe(ctl)
	return true
}

// request puts the requested number of partitions into the row, once for each start: the engine
// that started last decides. It returns false if a change is under way, after which it is called
// again.
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
	// A rebuild under way makes this change too when it is finished.
	ctl.Frozen = ctl.Next == 0 && !ctl.Rebuilding
	u.e.opts.Logger.Info("a projection is to have another number of partitions",
		"store", u.e.store.Name(), "projection", u.p.name, "from", ctl.partitions(), "to", u.partitions)
	return true
}

// add adds a part that runs, for the status.
func (u *unit) add(p *part) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.parts = append(u.mu.parts, p)
}

// remove removes a part that has ended.
func (u *unit) remove(p *part) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.parts = slices.DeleteFunc(u.mu.parts, func(other *part) bool { return other == p })
}

// note counts events that the handlers have handled. evs is not empty.
func (u *unit) note(evs []event.Recorded, took time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.handled += uint64(len(evs))
	u.mu.busy += took
	u.mu.last = evs[len(evs)-1].Time
}

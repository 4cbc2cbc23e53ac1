package projection

import (
	"context"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// unit is a projection of an engine: one goroutine that subscribes when it may, and one of the
// subscription.
type unit struct {
	e    *Engine
	p    *Projection
	opts *event.SubscribeOptions

	woken   chan struct{} // its control row may have changed; has room for one
	leaving chan struct{} // closed when the engine stops
	left    sync.Once

	mu      sync.Mutex // guards the fields below
	state   State
	err     error
	sub     *event.Subscription
	handled uint64
	busy    time.Duration // of the handlers
	last    time.Time
}

func newUnit(e *Engine, p *Projection, opts *event.SubscribeOptions) *unit {
	return &unit{e: e, p: p, opts: opts, woken: make(chan struct{}, 1), leaving: make(chan struct{})}
}

func (u *unit) wake() {
	select {
	case u.woken <- struct{}{}:
	default:
	}
}

func (u *unit) leave() { u.left.Do(func() { close(u.leaving) }) }

func (u *unit) set(s State, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.state, u.err = s, err
}

// run keeps the projection running as its control row says.
func (u *unit) run(ctx context.Context) {
	defer u.set(Stopped, nil)
	restart := backoff.Policy{First: u.e.opts.RestartAfter, Max: max(time.Minute, u.e.opts.RestartAfter), Jitter: 0.2}
	failures := 0
	for !u.over(ctx) {
		before := u.position()
		wait, err := u.step(ctx)
		if err == nil && !wait {
			continue
		}
		if u.position() != before {
			failures = 0
		}
		var again <-chan time.Time
		stop := func() bool { return true }
		if err != nil && !u.over(ctx) {
			failures++
			u.set(Faulted, err)
			u.e.opts.Logger.Error("a projection has failed", "store", u.e.store.Name(), "projection", u.p.name, "error", err)
			if u.e.opts.RestartAfter > 0 {
				t := time.NewTimer(restart.Delay(failures))
				again, stop = t.C, t.Stop
			}
		}
		select {
		case <-u.woken:
		case <-again:
			u.set(Restarting, err)
		case <-u.leaving:
		case <-ctx.Done():
		}
		stop()
	}
}

// step does what the control row says. Wait means that nothing is to be done until it changes.
func (u *unit) step(ctx context.Context) (wait bool, err error) {
	ctl, err := u.enter(ctx)
	switch {
	case err != nil:
		return true, err
	case ctl.Rebuilding:
		u.set(Rebuilding, nil)
	case ctl.Paused:
		u.set(Paused, nil)
	case ctl.Version != u.p.version:
		u.set(Faulted, &VersionError{Name: u.p.name, Have: ctl.Version, Want: u.p.version})
	default:
		return false, u.subscribe(ctx, ctl)
	}
	return true, nil
}

func (u *unit) over(ctx context.Context) bool {
	select {
	case <-u.leaving:
		return true
	default:
		return ctx.Err() != nil
	}
}

func (u *unit) position() mainstem.Position {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sub == nil {
		return 0
	}
	return u.sub.Position()
}

// enter reads the control row, and writes the first one.
func (u *unit) enter(ctx context.Context) (control, error) {
	ctl, _, found, err := u.e.controls.get(ctx, u.p.name)
	if err != nil || found {
		return ctl, err
	}
	e, err := u.e.controls.table.Modify(ctx, u.p.name, func(old control, found bool) (control, error) {
		if !found {
			old.Version = u.p.version
		}
		return old, nil
	})
	return e.Value, err
}

// subscribe runs the subscription until the control row is another than ctl, the engine
// stops, or it fails.
func (u *unit) subscribe(ctx context.Context, ctl control) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sub, err := u.e.store.SubscribeBatch(ctx, u.p.name, u.opts, func(ctx context.Context, b *mainstem.Batch, evs []event.Recorded) error {
		return u.handle(ctx, ctl, b, evs)
	})
	if err != nil {
		return err
	}
	u.mu.Lock()
	u.state, u.err, u.sub = CatchingUp, nil, sub
	u.mu.Unlock()
	caughtUp := sub.CaughtUp()
	for {
		select {
		case <-caughtUp:
			u.set(Running, nil)
			caughtUp = nil
		case <-sub.Done():
			if u.over(ctx) {
				return nil
			}
			return sub.Err()
		case <-u.leaving:
			_ = sub.Close() // its commit under way is finished
			return nil
		case <-u.woken:
			now, _, _, err := u.e.controls.get(ctx, u.p.name)
			if err == nil && now != ctl {
				cancel() // nothing of it can be committed any more
				<-sub.Done()
				return nil
			}
		}
	}
}

// handle handles events in one commit, which depends on the control row being as the
// subscription began with.
func (u *unit) handle(ctx context.Context, ctl control, b *mainstem.Batch, evs []event.Recorded) error {
	now, is, _, err := u.e.controls.get(ctx, u.p.name)
	if err != nil { // not the fault of the events: they are tried again without end
		return mainstem.Errorf(mainstem.KindUnavailable, "projection", "%w", err)
	}
	if now != ctl {
		u.wake()
		select { // until subscribe ends the subscription
		case <-u.leaving:
			return errLeaving
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	u.e.controls.table.ExpectTo(b, u.p.name, is)
	began := time.Now()
	tx := newTx(b)
	for _, r := range evs {
		if err := u.p.apply(ctx, tx, u.e.types, r); err != nil {
			return err
		}
	}
	tx.flush()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.handled += uint64(len(evs))
	u.busy += time.Since(began)
	u.last = evs[len(evs)-1].Time
	return nil
}

package projection

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/kv"
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
	ctl, is, err := u.enter(ctx)
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
		return false, u.subscribe(ctx, ctl, is)
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

// enter returns the control row, which it writes if there is none, and the condition that it is
// still that.
func (u *unit) enter(ctx context.Context) (control, kv.Condition, error) {
	ctl, is, found, err := u.e.controls.get(ctx, u.p.name)
	if err != nil || found {
		return ctl, is, err
	}
	e, err := u.e.controls.table.Modify(ctx, u.p.name, func(old control, found bool) (control, error) {
		if !found {
			old.Version = u.p.version
		}
		return old, nil
	})
	return e.Value, kv.IfRevision(e.Revision), err
}

// subscribe runs the subscription until the control row is another than ctl, the engine
// stops, or it fails. Every commit of it expects what is says: the row as it was read last.
func (u *unit) subscribe(ctx context.Context, ctl control, is kv.Condition) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts := *u.opts
	opts.Expect = func(b *mainstem.Batch) { u.e.controls.table.ExpectTo(b, u.p.name, is) }
	var tried mainstem.Position // of the first event that the handler was last called with
	sub, err := u.e.store.SubscribeBatch(ctx, u.p.name, &opts, func(ctx context.Context, b *mainstem.Batch, evs []event.Recorded) error {
		if first := evs[0].Position; first > tried {
			tried = first
		} else if err := u.recheck(ctx, ctl, &is); err != nil { // again: perhaps because the row has changed
			return err
		}
		return u.handle(ctx, b, evs)
	})
	if err != nil {
		return u.unlessChanged(err)
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
			return u.unlessChanged(sub.Err())
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

// unlessChanged returns why a subscription has ended; nil if it was a commit that found the control row
// changed, so that the row is to be read again.
func (u *unit) unlessChanged(err error) error {
	var poison *event.PoisonError
	if errors.Is(err, mainstem.ErrConflict) && !errors.As(err, &poison) {
		return nil
	}
	return err
}

// recheck reads the control row again. It returns only if that is still ctl, with the condition in is, or
// when the subscription is to end.
func (u *unit) recheck(ctx context.Context, ctl control, is *kv.Condition) error {
	now, condition, _, err := u.e.controls.get(ctx, u.p.name)
	if err != nil { // not the fault of the events: they are tried again without end
		return mainstem.Errorf(mainstem.KindUnavailable, "projection", "%w", err)
	}
	if now == ctl {
		*is = condition
		return nil
	}
	u.wake() // subscribe ends the subscription
	select {
	case <-u.leaving:
		return errLeaving
	case <-ctx.Done():
		return ctx.Err()
	}
}

// handle handles events in one commit.
func (u *unit) handle(ctx context.Context, b *mainstem.Batch, evs []event.Recorded) error {
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

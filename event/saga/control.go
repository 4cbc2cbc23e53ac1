package saga

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// control is what all processes that run a type must agree on: a row of the table saga.control/<store>,
// whose key is the name of the type. Every commit of an engine for the type depends on the row's revision, so
// when it changes, nothing is written any more by who has not seen that.
type control struct {
	Paused time.Time `json:"paused,omitzero"` // since when; zero: it is not
}

func (c control) equal(other control) bool { return c.Paused.Equal(other.Paused) }

// control returns the row of a type, and the condition that it is still that. A type that was never paused has none.
func (r *Records) control(ctx context.Context, saga string) (control, kv.Condition, error) {
	e, err := r.controls.Get(ctx, saga)
	if errors.Is(err, mainstem.ErrNotFound) {
		return control{}, kv.IfAbsent(), nil
	}
	return e.Value, kv.IfRevision(e.Revision), err
}

// Pause stops the sagas of a type, in whatever processes they run, until [Records.Resume]: when it returns, no
// engine commits anything for them any more. Events, commands, compensations and timeouts wait; a handler that is
// under way may still end, without effect in the log. Timeouts go on counting: those that are due when the type is resumed come
// at once, after the events that are there then. A type that no engine has started yet is NotFound; one that is
// paused stays as it is.
func (r *Records) Pause(ctx context.Context, saga string) error {
	return r.setPaused(ctx, saga, time.Now().UTC().Round(0))
}

// Resume lets the sagas of a type that was paused go on where they were. One that is not paused is no error.
func (r *Records) Resume(ctx context.Context, saga string) error {
	return r.setPaused(ctx, saga, time.Time{})
}

func (r *Records) setPaused(ctx context.Context, saga string, since time.Time) error {
	if _, err := r.checkpoint(ctx, saga); err != nil {
		return err
	}
	_, err := r.controls.Modify(ctx, saga, func(c control, _ bool) (control, error) {
		if c.Paused.IsZero() || since.IsZero() {
			c.Paused = since
		}
		return c, nil
	})
	return err
}

// errChanged ends a commit of an engine that has not seen yet that its type was paused. It is Unavailable: what
// was tried is not at fault, and is tried again when the type runs.
var errChanged = mainstem.Errorf(mainstem.KindUnavailable, "saga", "the type was paused or resumed meanwhile")

// gate is the control row as a unit has seen it last.
type gate struct {
	mu sync.Mutex // guards the fields below
	is kv.Condition
	on bool // the type runs
}

func (g *gate) set(c control, is kv.Condition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.is, g.on = is, c.Paused.IsZero()
}

func (g *gate) get() (kv.Condition, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.is, g.on
}

// expect adds to b the condition that the control row is as the unit has seen it.
func (u *unit) expect(b *mainstem.Batch) {
	is, _ := u.gate.get()
	u.controls.ExpectTo(b, u.saga.name, is)
}

// unchanged returns errChanged if the control row is not as the unit has seen it, or says that the type is paused. One that
// says that the type runs, as it did, is taken note of.
func (u *unit) unchanged(ctx context.Context) error {
	c, now, err := u.control(ctx, u.saga.name)
	if err != nil {
		return err
	}
	is, on := u.gate.get()
	if on && c.Paused.IsZero() && now != is {
		u.gate.set(c, now)
	}
	if now != is || !c.Paused.IsZero() {
		return errChanged
	}
	return nil
}

// run runs the type until soft ends: always, but while it is paused.
func (u *unit) run(hard, soft context.Context) {
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { watch(soft, u.controls, u.saga.name, changed) })
	for failures := 1; soft.Err() == nil; failures++ {
		c, is, err := u.control(soft, u.saga.name)
		if err == nil {
			failures = 0
			u.gate.set(c, is)
			u.phase(hard, soft, c, changed)
			continue
		}
		if soft.Err() == nil {
			u.opts.Logger.Warn("it cannot be read whether sagas are paused", "store", u.store, "saga", u.saga.name, "error", err)
		}
		watchAgain.Wait(soft, failures)
	}
}

// phase runs what the control row says until it says something else, or soft ends. Handlers and commands under way
// end before it returns.
func (u *unit) phase(hard, soft context.Context, c control, changed <-chan struct{}) {
	var parts sync.WaitGroup
	defer parts.Wait()
	phase, end := context.WithCancel(soft)
	defer end()
	if c.Paused.IsZero() {
		parts.Go(func() { u.follow(hard, phase) })
		parts.Go(func() { u.serve(hard, phase) })
	}
	for failures := 0; wait(soft, changed, time.Now().Add(watchAgain.Delay(failures)), failures > 0); {
		now, is, err := u.control(soft, u.saga.name)
		if failures++; err == nil {
			failures = 0
			if !now.equal(c) {
				return
			}
			u.gate.set(now, is)
		}
	}
}

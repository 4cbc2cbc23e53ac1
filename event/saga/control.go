package saga

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// Pausing. Each type has at most one control record, in the table saga.control/<store>. Engines
// follow it:
//
//  1. An engine reads the record and its revision (the gate) before it runs anything of the type.
//  2. Every commit of an engine for the type has the condition that the record still has that
//     revision. So when [Records.Pause] has committed, no engine can commit anything that it began
//     before.
//  3. An engine watches the record. When it says paused, the engine ends the subscription, commands
//     and timeouts of the type (phase returns), and starts them again when it says running.
//  4. A commit that fails because the record has changed is not the fault of the event or command.
//     It fails with errChanged, which is Unavailable and so does not count as an attempt. Whether
//     the record has changed is decided by the condition of that commit.
//
// Invariant: an engine starts work of a type, and commits it, only under a revision of the record in
// which the type is not paused.

// control is the state that all processes that run a type must agree on: the record of the table
// saga.control/<store> whose key is the name of the type.
type control struct {
	Paused time.Time `json:"paused,omitzero"` // since when; zero: not paused
}

func (c control) equal(other control) bool { return c.Paused.Equal(other.Paused) }

// control returns the control record of a type, and the condition that it is unchanged. A type that
// was never paused has no record.
func (r *Records) control(ctx context.Context, saga string) (control, kv.Condition, error) {
	e, err := r.controls.Get(ctx, saga)
	if errors.Is(err, mainstem.ErrNotFound) {
		return control{}, kv.IfAbsent(), nil
	}
	return e.Value, kv.IfRevision(e.Revision), err
}

// Pause stops the sagas of a type in all processes, until [Records.Resume]. When Pause returns, no
// engine commits anything for them any more. Events, commands, compensations and timeouts wait. A
// handler that is running may finish, but its commit fails.
//
// Timeouts go on counting: when the type is resumed, those that are due are handled at once, after
// the events that are in the store then. Retry, Remove and Prune by callers still work. A type that
// no engine has started yet is NotFound. Pausing a paused type keeps its time.
func (r *Records) Pause(ctx context.Context, saga string) error {
	return r.setPaused(ctx, saga, time.Now().UTC().Round(0))
}

// Resume continues the sagas of a paused type. It is no error if the type is not paused. A type
// that no engine has started yet is NotFound.
func (r *Records) Resume(ctx context.Context, saga string) error {
	return r.setPaused(ctx, saga, time.Time{})
}

// setPaused changes the control record of a type; the zero time resumes it.
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

// errChanged reports that the control record is not the one in the gate, or that the type is
// paused. It is Unavailable, so the event or command is tried again and the attempt does not count.
var errChanged = mainstem.Errorf(mainstem.KindUnavailable, "saga", "the type was paused or resumed meanwhile")

// gate is the control record as a unit has last read it.
type gate struct {
	mu sync.Mutex   // guards the fields below
	is kv.Condition // the record is unchanged
	on bool         // the type is not paused
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

// expect adds to b the condition that the control record is the one in the gate, and returns it.
func (u *unit) expect(b *mainstem.Batch) kv.Condition {
	is, _ := u.gate.get()
	u.controls.ExpectTo(b, u.saga.name, is)
	return is
}

// unchanged returns errChanged if the control record does not meet the condition is, or if the type
// is paused. is must be that of the commit that has failed: another worker, or phase, may have
// updated the gate since. If the type runs and has run before, unchanged also updates the gate, so
// that the next try succeeds.
func (u *unit) unchanged(ctx context.Context, is kv.Condition) error {
	c, now, err := u.control(ctx, u.saga.name)
	if err != nil {
		return err
	}
	if at, on := u.gate.get(); on && c.Paused.IsZero() && now != at {
		u.gate.set(c, now)
	}
	if now != is || !c.Paused.IsZero() {
		return errChanged
	}
	return nil
}

// run runs the type until soft ends, in phases: each is the time between two changes of the control
// record. hard is for handlers and commits; see [unit.phase].
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

// phase runs the type as c says, until the control record says something else or soft ends. Before
// it returns, handlers and commands that are under way end. They use hard, so the end of soft does
// not cancel them.
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

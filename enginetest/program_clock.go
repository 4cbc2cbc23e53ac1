package enginetest

import (
	"context"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
)

// The steps of programs that set the clock. Engines do a part of what such a step asks for
// in the background, when they like. So that a program has one outcome, each step ends with
// a sweep of engine and model.

// setStep sets the clock, also while the log is closed.
type setStep struct {
	d       time.Duration
	restart bool
	write   bool // before a sweep has noticed it
}

// The sizes of the steps: two that are believed whatever was before, and others.
var clockSteps = []time.Duration{
	300 * time.Millisecond, -300 * time.Millisecond, 40 * time.Second, -40 * time.Second, time.Hour, -time.Hour, year, -year,
}

// furthest is how far programs set the clock from where it was in the beginning.
const furthest = 20 * year

func (s setStep) String() string {
	text := fmt.Sprintf("set the clock by %v", s.d)
	if s.restart {
		text += " while the log is closed"
	}
	if s.write {
		text += ", write"
	}
	return text + ", sweep"
}

func (s setStep) smaller() (out []step) {
	if s.restart {
		out = append(out, setStep{d: s.d, write: s.write})
	}
	if s.write {
		out = append(out, setStep{d: s.d, restart: s.restart})
	}
	return out
}

func (s setStep) run(m *machine) error {
	if !m.sweeps() {
		return nil
	}
	clock := m.env.f.Clock
	if to := clock.Now().Add(s.d).Sub(m.began); to > furthest || to < -furthest {
		return nil
	}
	// What is too old may be removed in the order of the log, from the first that is not on
	// later. After a clock was behind that is another order, until it is set back again.
	if s.d < -time.Second {
		if _, err := m.model.Space(m.ctx, "aging"); err == nil && m.backs > 0 {
			return nil
		}
		m.backs++
	}
	m.odd = true
	if s.restart {
		if err := m.restart(func() { clock.Set(s.d) }); err != nil {
			return err
		}
	} else {
		clock.Set(s.d)
	}
	// What is over is over at once, and nothing else, although nobody has swept.
	if s.d > 0 {
		if err := m.sameLive(); err != nil {
			return fmt.Errorf("before a sweep: %w", err)
		}
	}
	// A record that is due may be removed or not when the write comes.
	if s.write && !m.model.Due() {
		if err := s.put().run(m); err != nil {
			return fmt.Errorf("a write: %w", err)
		}
	}
	return m.sweepBoth()
}

// put returns a write that every state of a log allows.
func (setStep) put() step {
	return commitStep{ensures: []int{0}, writes: []plannedWrite{{value: 2, ttl: 25 * time.Second}}}
}

// acceptStep accepts the clock.
type acceptStep struct{}

func (acceptStep) String() string  { return "accept the clock, sweep" }
func (acceptStep) smaller() []step { return nil }
func (acceptStep) run(m *machine) error {
	if !m.sweeps() {
		return nil
	}
	m.ages()
	if err := m.sameClock(mainstem.ClockKeeper.AcceptClock); err != nil {
		return fmt.Errorf("the state before: %w", err)
	}
	return m.sweepBoth()
}

// ages begins a new series of batch IDs if the clock may say that those so far are old: a
// log may forget them then.
func (m *machine) ages() {
	if m.odd {
		m.era++
	}
}

// sweeps reports whether the engine can be told to sweep. Another one would do it when it
// likes: for it, time stands still.
func (m *machine) sweeps() bool {
	_, ok := m.env.log.(sweeper)
	return ok
}

// sweepBoth sweeps both and compares what they know of their clocks.
func (m *machine) sweepBoth() error {
	if err := m.env.log.(sweeper).Sweep(m.ctx); err != nil {
		return err
	}
	if err := m.model.Sweep(m.ctx); err != nil {
		return err
	}
	return m.sameClock(mainstem.ClockKeeper.Clock)
}

// sameClock compares what engine and model say of their clocks.
func (m *machine) sameClock(ask func(mainstem.ClockKeeper, context.Context) (mainstem.ClockState, error)) error {
	if !m.env.f.ClockKeeper {
		return nil
	}
	got, err := ask(m.env.log.(mainstem.ClockKeeper), m.ctx)
	if err != nil {
		return err
	}
	want, err := ask(m.model, m.ctx)
	if err != nil {
		return err
	}
	// A goroutine of the engine may have read the two clocks before and after the step.
	held := (got.Held - want.Held).Abs() < time.Microsecond
	if !got.Now.Equal(want.Now) || !held || got.TimesAhead != want.TimesAhead || got.Jumps != want.Jumps || got.SetBacks != want.SetBacks {
		return fmt.Errorf("the clock is %+v, want %+v", got, want)
	}
	return nil
}

// sameLive compares which keys are live.
func (m *machine) sameLive() error {
	for i, u := range universe {
		if err := (scanStep{space: i}).run(m); err != nil {
			return fmt.Errorf("scan %s: %w", u.name, err)
		}
	}
	return nil
}

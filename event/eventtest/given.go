package eventtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/internal/aggregateroot"
)

// Decision is the result of a decision: the events that it raised, or its error.
type Decision struct {
	t      testing.TB
	events []any
	err    error
}

// AggregateCase is an aggregate after given events.
type AggregateCase[A aggregate.Aggregate] struct {
	t testing.TB
	a A
}

// Given applies events to a new aggregate, which then is as if it had been loaded: its version is
// their number, and they are not uncommitted.
func Given[A aggregate.Aggregate](t testing.TB, a A, events ...any) *AggregateCase[A] {
	t.Helper()
	for i, ev := range events {
		if err := aggregate.Raise(a, ev); err != nil {
			t.Fatalf("given event %d, %s: %v", i+1, shown([]any{ev}), err)
		}
	}
	aggregateroot.Of(a).Clear(mainstem.Version(len(events)))
	return &AggregateCase[A]{t, a}
}

// When calls a function that decides and raises events.
func (c *AggregateCase[A]) When(decide func(A) error) *Decision {
	c.t.Helper()
	err := decide(c.a)
	return &Decision{c.t, aggregateroot.Of(c.a).Uncommitted(), err}
}

// DeciderCase is the state of an [aggregate.Decider] after given events.
type DeciderCase[S, C, E any] struct {
	t     testing.TB
	d     aggregate.Decider[S, C, E]
	state S
}

// GivenDecider evolves the initial state of d by events, each of which must be an E.
func GivenDecider[S, C, E any](t testing.TB, d aggregate.Decider[S, C, E], events ...any) *DeciderCase[S, C, E] {
	t.Helper()
	c := &DeciderCase[S, C, E]{t, d, d.Initial()}
	for i, v := range events {
		ev, ok := v.(E)
		if !ok {
			t.Fatalf("given event %d is a %T, which is not an event of the decider", i+1, v)
		}
		c.state = d.Evolve(c.state, ev)
	}
	return c
}

// When decides on a command. In a terminal state the error is [aggregate.ErrTerminal].
func (c *DeciderCase[S, C, E]) When(cmd C) *Decision {
	c.t.Helper()
	if c.d.Terminal != nil && c.d.Terminal(c.state) {
		return &Decision{t: c.t, err: aggregate.ErrTerminal}
	}
	events, err := c.d.Decide(c.state, cmd)
	d := &Decision{t: c.t, err: err}
	for _, ev := range events {
		d.events = append(d.events, ev)
	}
	return d
}

// Then checks that the decision succeeded with exactly these events, in this order.
func (d *Decision) Then(want ...any) *Decision {
	d.t.Helper()
	if d.err != nil {
		d.t.Errorf("it failed: %v; want %s", d.err, shown(want))
		return d
	}
	Events(d.t, d.events...).Equal(want...)
	return d
}

// ThenNothing checks that the decision succeeded without events.
func (d *Decision) ThenNothing() *Decision {
	d.t.Helper()
	return d.Then()
}

// ThenError checks that errors.Is finds want in the error of the decision.
func (d *Decision) ThenError(want error) *Decision {
	d.t.Helper()
	if !errors.Is(d.err, want) {
		d.t.Errorf("the error is %v, want %v", d.err, want)
	}
	return d
}

// ThenErrorContains checks that the decision failed with an error whose text contains want.
func (d *Decision) ThenErrorContains(want string) *Decision {
	d.t.Helper()
	if d.err == nil || !strings.Contains(d.err.Error(), want) {
		d.t.Errorf("the error is %v, want one with %q", d.err, want)
	}
	return d
}

// Events returns the events of the decision, for further checks.
func (d *Decision) Events() *List { return Events(d.t, d.events...) }

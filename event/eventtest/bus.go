package eventtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
)

// BusCase is a command bus with the store that its events are appended to.
type BusCase struct {
	t     testing.TB
	bus   *command.Bus
	store *event.Store
	types *event.Types
}

// GivenBus returns a case of a bus whose events are appended to store and decoded with types. The
// log of both may be in memory. No other test may append to the store.
func GivenBus(t testing.TB, bus *command.Bus, store *event.Store, types *event.Types) *BusCase {
	return &BusCase{t, bus, store, types}
}

// Existing appends events to a stream, at any version.
func (c *BusCase) Existing(stream string, events ...any) *BusCase {
	c.t.Helper()
	encoded := make([]event.Event, len(events))
	for i, ev := range events {
		var err error
		if encoded[i], err = c.types.Encode(ev); err != nil {
			c.t.Fatalf("existing event %d of stream %s: %v", i+1, stream, err)
		}
	}
	if _, err := c.store.Append(c.t.Context(), stream, event.AnyVersion, encoded); err != nil {
		c.t.Fatalf("existing stream %s: %v", stream, err)
	}
	return c
}

// When dispatches a command, and collects the events that were appended to the store meanwhile.
func (c *BusCase) When(cmd command.Command) *Dispatched {
	c.t.Helper()
	last, err := c.store.LastPosition(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	d := &Dispatched{t: c.t}
	d.result, d.err = c.bus.Dispatch(c.t.Context(), cmd)
	for r, err := range c.store.Feed(c.t.Context(), &event.FeedOptions{After: last}) {
		if err == nil {
			err = c.types.Each(r, func(v any, _ event.Recorded) error {
				d.events = append(d.events, v)
				return nil
			})
		}
		if err != nil {
			c.t.Fatalf("events after the command: %v", err)
		}
	}
	return d
}

// Dispatched is the result of a command, with the events that it appended.
type Dispatched struct {
	t      testing.TB
	result command.Result
	err    error
	events []any
}

// ThenSucceeds checks that the command succeeded.
func (d *Dispatched) ThenSucceeds() *Dispatched {
	d.t.Helper()
	if d.err != nil {
		d.t.Errorf("the command failed: %v", d.err)
	}
	return d
}

// ThenFails checks that errors.Is finds want in the error of the command, and that no events were
// appended.
func (d *Dispatched) ThenFails(want error) *Dispatched {
	d.t.Helper()
	if !errors.Is(d.err, want) {
		d.t.Errorf("the error is %v, want %v", d.err, want)
	}
	return d.nothing()
}

// ThenFailsWith checks that the command failed with an error whose text contains want, and that no
// events were appended.
func (d *Dispatched) ThenFailsWith(want string) *Dispatched {
	d.t.Helper()
	if d.err == nil || !strings.Contains(d.err.Error(), want) {
		d.t.Errorf("the error is %v, want one with %q", d.err, want)
	}
	return d.nothing()
}

// nothing checks that no events were appended.
func (d *Dispatched) nothing() *Dispatched {
	d.t.Helper()
	if len(d.events) > 0 {
		d.t.Errorf("it failed, and yet there are events: %s", shown(d.events))
	}
	return d
}

// ThenID checks the AggregateID of the result.
func (d *Dispatched) ThenID(want string) *Dispatched {
	d.t.Helper()
	if d.result.AggregateID != want {
		d.t.Errorf("the aggregate is %q, want %q", d.result.AggregateID, want)
	}
	return d
}

// ThenVersion checks the Version of the result.
func (d *Dispatched) ThenVersion(want mainstem.Version) *Dispatched {
	d.t.Helper()
	if d.result.Version != want {
		d.t.Errorf("the version is %d, want %d", d.result.Version, want)
	}
	return d
}

// Then checks that the command succeeded and appended exactly these events, in this order, to any
// streams.
func (d *Dispatched) Then(want ...any) *Dispatched {
	d.t.Helper()
	d.ThenSucceeds()
	Events(d.t, d.events...).Equal(want...)
	return d
}

// Result returns the result and the error of Dispatch.
func (d *Dispatched) Result() (command.Result, error) { return d.result, d.err }

// Events returns the appended events, for further checks.
func (d *Dispatched) Events() *List { return Events(d.t, d.events...) }

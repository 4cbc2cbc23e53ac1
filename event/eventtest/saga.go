package eventtest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/saga"
)

// SagaCase runs the sagas of one type in virtual time, without a log or a bus. A command that was
// sent succeeds before the next event or timeout, unless [SagaCase.Refused] is called first.
type SagaCase struct {
	t    testing.TB
	sim  *saga.Simulation
	seen map[string]mainstem.Version // number of events so far, by stream
	sent []command.Command           // by the last call of Given, After or Refused
}

// GivenSaga returns a case without sagas. Its clock begins at 2030-01-01 00:00 UTC.
func GivenSaga(t testing.TB, s *saga.Saga) *SagaCase {
	return &SagaCase{t: t, sim: saga.Simulate(s, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), seen: make(map[string]mainstem.Version)}
}

// defaultStream is the stream of events without one.
const defaultStream = "test-1"

// InStream has events with their stream; see [In].
type InStream struct {
	stream string
	events []any
}

// In names the stream of events, such as "order-42". Events that are not passed through In are in
// the stream test-1.
func In(stream string, events ...any) InStream { return InStream{stream, events} }

// placed gives each event its stream.
func placed(events []any) (out []InStream) {
	for _, ev := range events {
		if p, ok := ev.(InStream); ok {
			out = append(out, p)
		} else {
			out = append(out, InStream{defaultStream, []any{ev}})
		}
	}
	return out
}

// Given passes events to the sagas, one after the other, and keeps the commands that they sent for
// the checks.
func (c *SagaCase) Given(events ...any) *SagaCase {
	c.t.Helper()
	c.sent = nil
	for _, p := range placed(events) {
		for _, ev := range p.events {
			c.seen[p.stream]++
			sent, err := c.sim.Handle(ev, event.Recorded{
				Event: event.Event{ID: event.NewID(), Type: goType(ev)}, Stream: p.stream, Version: c.seen[p.stream], Time: c.sim.Now(),
			})
			if err != nil {
				c.t.Fatalf("event %s: %v", shown([]any{ev}), err)
			}
			c.sent = append(c.sent, sent...)
		}
	}
	return c
}

// After advances the clock by d and runs the timeouts that are due.
func (c *SagaCase) After(d time.Duration) *SagaCase {
	c.t.Helper()
	sent, err := c.sim.Advance(d)
	if err != nil {
		c.t.Fatalf("after %v: %v", d, err)
	}
	c.sent = sent
	return c
}

// Refused makes a command or a compensation fail with err. It must have been sent by the last
// event, timeout or refusal. Commands that the same saga sent before it succeed.
func (c *SagaCase) Refused(cmd command.Command, err error) *SagaCase {
	c.t.Helper()
	sent, err := c.sim.Refuse(cmd, err)
	if err != nil {
		c.t.Fatalf("refused: %v", err)
	}
	c.sent = sent
	return c
}

// ThenCommands checks that the last call of Given, After or Refused sent exactly these commands, in
// this order. The IDs in the [command.Base] of the sent commands are empty.
func (c *SagaCase) ThenCommands(want ...command.Command) *SagaCase {
	c.t.Helper()
	if len(c.sent) != len(want) {
		c.t.Errorf("%d commands were sent, want %d\n\tgot  %s\n\twant %s", len(c.sent), len(want), commands(c.sent), commands(want))
		return c
	}
	for i := range want {
		if d := diff(c.sent[i], want[i]); d != "" {
			c.t.Errorf("command %d is a %s, and not the %s that is wanted\n%s", i+1, goType(c.sent[i]), goType(want[i]), d)
		}
	}
	return c
}

// ThenCompensates checks that a saga is compensating, and that the last call sent exactly these
// compensations, in this order: the one that was pushed last comes first.
func (c *SagaCase) ThenCompensates(want ...command.Command) *SagaCase {
	c.t.Helper()
	if c.sim.Compensating() == 0 {
		c.t.Errorf("no saga compensates; sent were %s", commands(c.sent))
		return c
	}
	return c.ThenCommands(want...)
}

// ThenStatus checks the status of the saga with a key, after all commands that were sent have
// succeeded.
func (c *SagaCase) ThenStatus(key string, want saga.Status) *SagaCase {
	c.t.Helper()
	c.sim.Finish()
	switch i, ok := c.sim.Get(key); {
	case !ok:
		c.t.Errorf("there is no saga with the key %q, want one that is %s", key, want)
	case i.Status != want && i.Error != "":
		c.t.Errorf("saga %s is %s, want %s; it has failed: %s", i.ID, i.Status, want, i.Error)
	case i.Status != want:
		c.t.Errorf("saga %s is %s, want %s", i.ID, i.Status, want)
	}
	return c
}

// ThenState checks the state of the saga with a key. want is a value of the state's type.
func (c *SagaCase) ThenState(key string, want any) *SagaCase {
	c.t.Helper()
	i, ok := c.sim.Get(key)
	if !ok {
		c.t.Errorf("there is no saga with the key %q", key)
		return c
	}
	got, err := i.DecodeState(reflect.TypeOf(want))
	if err != nil {
		c.t.Errorf("the state of saga %s: %v", i.ID, err)
	} else if d := diff(got, want); d != "" {
		c.t.Errorf("the state of saga %s is not the one that is wanted\n%s", i.ID, d)
	}
	return c
}

// ThenNoSaga checks that there is no saga with a key.
func (c *SagaCase) ThenNoSaga(key string) *SagaCase {
	c.t.Helper()
	if i, ok := c.sim.Get(key); ok {
		c.t.Errorf("there is a saga %s, which is %s", i.ID, i.Status)
	}
	return c
}

// commands formats commands on one line.
func commands(cmds []command.Command) string {
	if len(cmds) == 0 {
		return "none"
	}
	parts := make([]string, len(cmds))
	for i, cmd := range cmds {
		parts[i] = fmt.Sprintf("%s%+v", goType(cmd), cmd)
	}
	return strings.Join(parts, ", ")
}

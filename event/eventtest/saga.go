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

// SagaCase is a type of sagas to which events happen, in virtual time, without a log or a bus. Commands are
// taken for carried out with the next event, unless they are refused.
type SagaCase struct {
	t    testing.TB
	sim  *saga.Simulation
	seen map[string]mainstem.Version // of the streams
	sent []command.Command           // by the last call
}

// GivenSaga returns a case without sagas. Its clock begins at the 1st of January 2030, in UTC.
func GivenSaga(t testing.TB, s *saga.Saga) *SagaCase {
	return &SagaCase{t: t, sim: saga.Simulate(s, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), seen: make(map[string]mainstem.Version)}
}

// defaultStream is where events happen that name no stream.
const defaultStream = "test-1"

// InStream are events of a stream; see [In].
type InStream struct {
	stream string
	events []any
}

// In says in which stream events happen, where that matters: "order-42". Others happen in the stream test-1.
func In(stream string, events ...any) InStream { return InStream{stream, events} }

// placed returns events with their streams.
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

// Given lets events happen, one after the other, and keeps the commands that were sent for the checks.
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

// After lets time pass, with the timeouts that are due.
func (c *SagaCase) After(d time.Duration) *SagaCase {
	c.t.Helper()
	sent, err := c.sim.Advance(d)
	if err != nil {
		c.t.Fatalf("after %v: %v", d, err)
	}
	c.sent = sent
	return c
}

// Refused lets a command, or a compensation, be refused that was sent by the last event, timeout or refusal.
func (c *SagaCase) Refused(cmd command.Command, err error) *SagaCase {
	c.t.Helper()
	sent, err := c.sim.Refuse(cmd, err)
	if err != nil {
		c.t.Fatalf("refused: %v", err)
	}
	c.sent = sent
	return c
}

// ThenCommands checks that these commands were sent by the last call of Given, After or Refused, in this
// order, none if there are none here. What [command.Base] says of their origin is not compared.
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

// ThenCompensates checks that a saga has failed by the last call, and that these compensations were sent,
// the first of them first: the one that was pushed last.
func (c *SagaCase) ThenCompensates(want ...command.Command) *SagaCase {
	c.t.Helper()
	if c.sim.Compensating() == 0 {
		c.t.Errorf("no saga compensates; sent were %s", commands(c.sent))
		return c
	}
	return c.ThenCommands(want...)
}

// ThenStatus checks the status of the saga with a key, once what was sent is carried out.
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

// ThenState checks the state of the saga with a key: want is a value of its type.
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

// commands returns commands on one line.
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

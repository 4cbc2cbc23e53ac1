package saga_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/saga"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// simulation is a simulation that returns the commands that are sent as text.
type simulation struct {
	t *testing.T
	*saga.Simulation
}

func simulate(t *testing.T) simulation {
	t.Helper()
	def, err := newFulfilment("fulfilment")
	if err != nil {
		t.Fatal(err)
	}
	return simulation{t, saga.Simulate(def, time.Unix(1_700_000_000, 0))}
}

// sent checks the commands that a call has returned, and the status of the saga 1 after them.
func (s simulation) sent(cmds []command.Command, err error) func(want string) {
	return func(want string) {
		s.t.Helper()
		var types []string
		for _, c := range cmds {
			types = append(types, c.CommandType())
		}
		if got := strings.Join(types, " "); got != want || err != nil {
			s.t.Errorf("sent %s, %v; want %s", got, err, want)
		}
	}
}

func (s simulation) is(want saga.Status) {
	s.t.Helper()
	s.Finish()
	if i, ok := s.Get("1"); !ok || i.Status != want {
		s.t.Errorf("the saga is %s, want %s", i.Status, want)
	}
}

var order1 = event.Recorded{Stream: "order-1"}

// A simulation has the same results as an engine.
func TestSimulation(t *testing.T) {
	s := simulate(t)
	s.sent(s.Handle(charged{}, order1))("") // early
	s.sent(s.Handle(placed{"book"}, order1))("Charge")
	s.sent(s.Advance(patience - 1))("")
	s.is(saga.Started)
	s.sent(s.Handle(charged{}, order1))("Ship")
	s.sent(s.Advance(patience))("")
	s.is(saga.Running)
	s.sent(s.Handle(shipped{}, order1))("")
	s.is(saga.Completed)
	s.sent(s.Handle(charged{}, order1))("") // ignored
	if c := s.Stats(); c.Early != 1 || c.Ignored != 1 || c.Handled != 3 {
		t.Errorf("counted %+v", c)
	}

	s = simulate(t)
	s.sent(s.Handle(placed{"book"}, order1))("Charge")
	s.sent(s.Advance(patience))("Cancel")
	s.is(saga.Compensated)
	if s.Now() != time.Unix(1_700_000_000, 0).Add(patience) {
		t.Errorf("it is %v", s.Now())
	}

	s = simulate(t)
	s.sent(s.Handle(placed{"book"}, order1))("Charge")
	s.sent(s.Handle(charged{}, order1))("Ship")
	s.sent(s.Refuse(ship{Order: "1", Item: "book"}, errRefused))("Refund Cancel")
	s.sent(s.Refuse(&cancel{"1"}, errRefused))("")
	s.is(saga.CompensationFailed)
	if _, err := s.Refuse(refund{"1"}, errRefused); err == nil {
		t.Error("a command can be refused that was carried out")
	}
	if _, ok := s.Get("2"); ok {
		t.Error("there is a saga that nothing has started")
	}
}

// The simulation and an engine agree on random programs.
func TestSimulationAgreesWithEngines(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	s.start(nil, nil)
	for i, item := range []string{"book", heavy, broke, stolen, sticky, withheld} {
		order := fmt.Sprint(i)
		s.append(order, placed{item})
		end := map[string]saga.Status{"book": saga.Completed, sticky: saga.CompensationFailed, withheld: saga.Failed}[item]
		if end == "" {
			end = saga.Compensated
		}
		real := s.until(order, end)
		sim := simulate(t)
		evs, err := s.store.Load(t.Context(), "order-"+order, nil)
		s.must(err)
		var sent []command.Command
		for _, ev := range evs {
			v, err := s.types.Decode(ev)
			s.must(err)
			if _, compensating := v.(undone); compensating {
				continue
			}
			cmds, err := sim.Handle(v, ev)
			s.must(err)
			sent = append(sent[:0], cmds...)
		}
		for len(sent) > 0 {
			var next []command.Command
			for _, cmd := range sent {
				c, order := cmd.CommandType(), order
				if strings.Contains(s.did(order), c+"=1") {
					continue
				}
				cmds, err := sim.Refuse(cmd, errRefused)
				s.must(err)
				next = append(next, cmds...)
			}
			sent = next
		}
		sim.Finish()
		got, _ := sim.Get(order)
		if got.Status != real.Status || string(got.State) != string(real.State) || fmt.Sprint(got.Compensations) != fmt.Sprint(compensations(real)) {
			t.Errorf("%s: the simulation ends with %+v, the engine with %+v", item, got, real)
		}
	}
}

// compensations returns those of an engine's saga with the errors of the simulation.
func compensations(i saga.Instance) []saga.Compensation {
	out := i.Compensations
	for n := range out {
		if out[n].Error != "" {
			out[n].Error = errRefused.Error()
		}
	}
	return out
}

// Commands are encoded with the codec that is declared, and read with those that were.
func TestCodecsOfCommands(t *testing.T) {
	def := func(codecs ...codec.Codec) *saga.Saga {
		d, err := saga.New[state]("fulfilment", saga.Sends[charge](codecs...),
			saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[state], _ placed) error {
				c.Dispatch(charge{Order: c.Key(), Cents: 7})
				return nil
			}))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	s := newShop(t, testengines.Memory(t))
	blocked := true
	s.before = func(context.Context, string, string) error {
		if blocked {
			return errBankClosed
		}
		return nil
	}
	run := func(d *saga.Saga) *saga.Engine {
		e, err := saga.Open(s.store, s.types, s.bus, &saga.Options{Logger: quiet.Logger, Backoff: time.Millisecond, MaxBackoff: 2 * time.Millisecond})
		s.must(errors.Join(err, e.Register(d, nil), e.Start(t.Context())))
		return e
	}
	e := run(def(codec.Gob))
	s.append("1", placed{"book"})
	s.until("1", saga.Started)
	s.stop(e)
	blocked = false
	e = run(def()) // JSON only: the command waits
	s.append("2", placed{"book"})
	testkit.Eventually(t, "the other command is carried out", func() bool { return s.did("2") == "Charge=1" })
	if s.did("1") != "" {
		t.Errorf("%s took effect", s.did("1"))
	}
	s.stop(e)
	e = run(def(codec.JSON, codec.Gob))
	testkit.Eventually(t, "the command is carried out", func() bool { return s.did("1") == "Charge=1" })
	s.stop(e)
}

var errBankClosed = mainstem.Errorf(mainstem.KindUnavailable, "test", "the bank is closed")

package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/saga"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// Every path of a saga leads to an end, on every engine, and each command takes effect once.
func TestWays(t *testing.T) {
	for _, w := range []struct {
		item          string
		end           saga.Status
		did, happened string
		steps, err    string
	}{
		{"book", saga.Completed, "Charge=1 Ship=1", `Placed "Item":"book", Charged "Cents":995, Shipped`, "Started Handled Handled", ""},
		{broke, saga.Compensated, "Cancel=1", `Placed "Item":"broke", Undone "What":"order"`, "Started Refused Compensated", "Charge of broke: refused"},
		{heavy, saga.Compensated, "Cancel=1 Charge=1 Refund=1", `Placed "Item":"heavy", Charged "Cents":995, Undone "What":"charge", Undone "What":"order"`,
			"Started Handled Refused Compensated Compensated", "Ship of heavy: refused"},
		{sticky, saga.CompensationFailed, "Cancel=1 Charge=1", `Placed "Item":"sticky", Charged "Cents":995, Undone "What":"order"`,
			"Started Handled Refused CompensationRefused Compensated", "Ship of sticky: refused"},
		{stolen, saga.Compensated, "Cancel=1 Charge=1 Refund=1", `Placed "Item":"stolen", Charged "Cents":995, Undone "What":"charge", Undone "What":"order"`,
			"Started Handled Compensated Compensated", "stolen"},
		{withheld, saga.Failed, "", `Placed "Item":"withheld"`, "Started", "withheld"},
	} {
		t.Run(w.item, func(t *testing.T) {
			testengines.Each(t, func(t *testing.T, log mainstem.Log) {
				s := newShop(t, log)
				s.start(nil, nil)
				s.append("1", placed{w.item})
				i := s.until("1", w.end)
				if got := s.did("1"); got != w.did {
					t.Errorf("%s took effect, want %s", got, w.did)
				}
				if got := s.happened("1"); got != w.happened {
					t.Errorf("%s happened, want %s", got, w.happened)
				}
				if got := s.steps("1"); got != w.steps {
					t.Errorf("the history is %s, want %s", got, w.steps)
				}
				if i.Error != w.err {
					t.Errorf("the error is %q, want %q", i.Error, w.err)
				}
				if len(i.Timeouts) != 0 {
					t.Errorf("timeouts %v are left", i.Timeouts)
				}
				s.consistent()
			})
		})
	}
}

// Commands carry the correlation, the causation and the tenant of the event that led to them.
func TestCommandsSayWhereTheyComeFrom(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	var got charge
	s.must(command.Handle(s.bus, func(context.Context, poke) (command.Result, error) { return command.Result{}, nil }))
	s.before = func(ctx context.Context, name, order string) error {
		if name == "Charge" {
			m := event.MetadataFrom(ctx)
			got = charge{Base: command.Base{CommandID: m.CausationID, CorrelationID: m.CorrelationID}, Order: m.TenantID}
		}
		return nil
	}
	s.start(nil, nil)
	s.append("7", placed{"book"})
	s.until("7", saga.Completed)
	want := charge{Base: command.Base{CommandID: "fulfilment/7/1", CorrelationID: "fulfilment-7"}, Order: "tenant-7"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	evs, err := s.store.Load(t.Context(), "order-7", nil)
	s.must(err)
	if m := evs[1].Metadata; m.CausationID != "fulfilment/7/1" || m.CorrelationID != "fulfilment-7" {
		t.Errorf("the event of the command has metadata %+v", m)
	}
}

var quiet = &saga.Options{Logger: slog.New(slog.DiscardHandler)}

type poke struct{}

func (poke) CommandType() string { return "Poke" }

// Events before the start, after the end, and second starts change nothing and are counted.
func TestEventsOutOfTurn(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	e := s.start(nil, nil)
	s.append("x", poked{"1"}) // no saga yet
	s.append("1", placed{"book"})
	s.until("1", saga.Completed)
	s.append("1", placed{"second"})
	last := s.append("x", poked{"1"})
	s.must(e.WaitFor(t.Context(), "fulfilment", last))
	i := s.get("1")
	st, err := saga.StateOf[state](i)
	s.must(err)
	if i.Status != saga.Completed || i.Ignored != 2 || st.Pokes != 0 || st.Item != "book" {
		t.Errorf("the saga is %+v with state %+v", i, st)
	}
	testkit.Eventually(t, "the events and commands are counted", func() bool {
		c := e.Stats()[0]
		return c.Early == 1 && c.Ignored == 2 && c.Handled == 3 && c.Commands == 2
	})
	if got := s.did("1"); got != "Charge=1 Ship=1" {
		t.Errorf("%s took effect", got)
	}
}

// conflictingLog is a log whose first commit that writes a saga fails with a conflict.
type conflictingLog struct {
	mainstem.Log
	conflicted atomic.Bool
}

func (l *conflictingLog) Commit(ctx context.Context, b *mainstem.Batch) (r mainstem.Receipt, err error) {
	const space = "kv/saga/shop"
	if slices.ContainsFunc(b.Writes(), func(w mainstem.Write) bool { return w.Space == space }) && !l.conflicted.Swap(true) {
		return r, &mainstem.Error{Kind: mainstem.KindConflict, Op: "commit", Space: space, Outcome: mainstem.NotWritten}
	}
	return l.Log.Commit(ctx, b)
}

// An event that is handled again after a conflict is counted once.
func TestEventsAreCountedOnce(t *testing.T) {
	log := &conflictingLog{Log: testengines.Memory(t)}
	s := newShop(t, log)
	e := s.start(nil, nil)
	s.append("1", placed{"book"})
	if s.until("1", saga.Completed); !log.conflicted.Load() {
		t.Error("no commit has conflicted")
	}
	testkit.Eventually(t, "three events to be counted", func() bool { return e.Stats()[0].Handled == 3 })
}

// Two types of sagas with one key are two sagas.
func TestTypesDoNotMix(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	e, err := saga.Open(s.store, s.types, s.bus, quiet)
	s.must(err)
	for _, name := range []string{"a", "a.b"} {
		def, err := saga.New[state](name, saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[state], ev placed) error {
			c.State.Item = name + c.Key()
			return nil
		}))
		s.must(err)
		s.must(e.Register(def, nil))
	}
	s.must(e.Start(t.Context()))
	defer s.stop(e)
	last := s.append("b-1", placed{"book"})
	for _, name := range []string{"a", "a.b"} {
		s.must(e.WaitFor(t.Context(), name, last))
		i, err := s.records.Get(t.Context(), saga.ID(name, "b-1"))
		s.must(err)
		if st, err := saga.StateOf[state](i); err != nil || st.Item != name+"b-1" {
			t.Errorf("%s has state %+v, %v", name, st, err)
		}
	}
	var ids []string
	for i, err := range s.records.Find(t.Context(), "a", saga.Started) {
		s.must(err)
		ids = append(ids, i.ID)
	}
	if !slices.Equal(ids, []string{"a-b-1"}) {
		t.Errorf("found %v", ids)
	}
}

// Retry continues sagas that have failed, and no others.
func TestRetry(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := newShop(t, log)
		s.start(nil, nil)
		ends := map[string]saga.Status{
			broke: saga.Compensated, heavy: saga.Compensated, sticky: saga.CompensationFailed, withheld: saga.Failed,
		}
		for item, end := range ends {
			s.append(item, placed{item})
			s.until(item, end)
		}
		s.append("book", placed{"book"})
		s.until("book", saga.Completed)
		if err := s.records.Retry(t.Context(), saga.ID("fulfilment", "book")); !errors.Is(err, saga.ErrNotRetryable) || !errors.Is(err, mainstem.ErrConflict) {
			t.Errorf("retry of a completed saga: %v", err)
		}
		if err := s.records.Retry(t.Context(), "fulfilment-none"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("retry of none: %v", err)
		}
		// What is wrong is still wrong.
		s.must(s.records.Retry(t.Context(), saga.ID("fulfilment", withheld)))
		testkit.Eventually(t, "the event is handled again", func() bool { return s.steps(withheld) == "Started Retried Started" })
		s.until(withheld, saga.Failed)

		s.repaired.Store(true)
		after := map[string]string{
			broke: "Cancel=1 Charge=1 Ship=1", heavy: "Cancel=1 Charge=2 Refund=1 Ship=1", sticky: "Cancel=1 Charge=1 Refund=1",
		}
		for item, did := range after {
			s.must(s.records.Retry(t.Context(), saga.ID("fulfilment", item)))
			end := saga.Completed
			if item == sticky {
				end = saga.Compensated
			}
			s.until(item, end)
			if got := s.did(item); got != did {
				t.Errorf("%s: %s took effect, want %s", item, got, did)
			}
		}
		s.consistent()
	})
}

// A command that is refused before there are compensations is sent again by Retry, with the
// withdrawn commands. The saga is then completed, as it was when the command was refused.
func TestRetryOfACommand(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	def, err := saga.New[state]("fulfilment", saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[state], ev placed) error {
		c.Dispatch(charge{Order: c.Key()})
		c.Dispatch(ship{Order: c.Key(), Item: ev.Item})
		c.Complete()
		return nil
	}), saga.On(func(ev poked, _ event.Recorded) string { return ev.Order }, func(*saga.Context[state], poked) error {
		return nil
	}), saga.Sends[charge](), saga.Sends[ship]())
	s.must(err)
	e, err := saga.Open(s.store, s.types, s.bus, quiet)
	s.must(err)
	s.must(e.Register(def, nil))
	s.must(e.Start(t.Context()))
	defer s.stop(e)
	s.append("1", placed{broke})
	i := s.until("1", saga.Failed)
	if i.Refused != "fulfilment/1/1" || s.did("1") != "" {
		t.Errorf("%s was refused, and %s took effect", i.Refused, s.did("1"))
	}
	s.repaired.Store(true)
	s.must(e.Retry(t.Context(), i.ID))
	testkit.Eventually(t, "both commands take effect", func() bool { return s.did("1") == "Charge=1 Ship=1" })
	s.must(e.WaitFor(t.Context(), "fulfilment", s.append("x", poked{"1"})))
	if i := s.get("1"); i.Status != saga.Completed || i.Sent != 4 || i.Error != "" || i.Ignored != 1 {
		t.Errorf("after the retry it is %+v", i)
	}
	s.consistent()
	s.must(s.records.Remove(t.Context(), i.ID))
}

// An event that cannot be handled stops the type, or is parked and can be handled later.
func TestPoison(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	e := s.start(nil, &saga.Follow{Attempts: 2, Backoff: 1, MaxBackoff: 1, OnPoison: event.ParkPoison})
	s.append("1", placed{poison})
	s.append("2", placed{"book"})
	s.until("2", saga.Completed)
	if n, err := e.RetryParked(t.Context(), "fulfilment"); n != 0 || err != nil {
		t.Errorf("%d events were handled, %v", n, err)
	}
	var parked []event.Parked
	for p, err := range s.store.Parked(t.Context(), "saga/fulfilment") {
		s.must(err)
		parked = append(parked, p)
	}
	if len(parked) != 1 || parked[0].Stream != "order-1" || !strings.Contains(parked[0].Reason, "poison") {
		t.Errorf("parked are %+v", parked)
	}
	if i := s.get("1"); i.ID != "" {
		t.Errorf("there is a saga: %+v", i)
	}
}

func TestPoisonStops(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	e := s.start(nil, &saga.Follow{Attempts: 1})
	s.append("1", placed{poison})
	testkit.Eventually(t, "the saga reports its error", func() bool {
		var p *event.PoisonError
		return errors.As(e.Stats()[0].Err, &p)
	})
}

func TestDefinitions(t *testing.T) {
	start := saga.StartOn(saga.StreamKey[placed], func(*saga.Context[state], placed) error { return nil })
	timeout := saga.OnTimeout("x", func(*saga.Context[state]) error { return nil })
	for want, define := range map[string]func() (*saga.Saga, error){
		"nothing starts it":            func() (*saga.Saga, error) { return saga.New[state]("a", timeout) },
		"want a name of 1 to 64":       func() (*saga.Saga, error) { return saga.New[state]("a-b", start) },
		"two handlers for saga_test.p": func() (*saga.Saga, error) { return saga.New[state]("a", start, start) },
		"two handlers for timeout x":   func() (*saga.Saga, error) { return saga.New[state]("a", start, timeout, timeout) },
		"has the state saga_test.stat": func() (*saga.Saga, error) { return saga.New[int]("a", start) },
		"an option is empty":           func() (*saga.Saga, error) { return saga.New[state]("a", start, saga.Option{}) },
		"the state func()":             func() (*saga.Saga, error) { return saga.New[func()]("a") },
		"is declared twice":            func() (*saga.Saga, error) { return saga.New[state]("a", start, saga.Sends[ship](), saga.Sends[ship]()) },
		"is an interface":              func() (*saga.Saga, error) { return saga.New[state]("a", start, saga.Sends[command.Command]()) },
		"a codec of":                   func() (*saga.Saga, error) { return saga.New[state]("a", start, saga.Sends[ship](nil)) },
		"the key or the handler":       func() (*saga.Saga, error) { return saga.New[state]("a", saga.On[state, placed](nil, nil)) },
		"the handler of timeout":       func() (*saga.Saga, error) { return saga.New[state]("a", start, saga.OnTimeout[state]("x", nil)) },
	} {
		_, err := define()
		if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}

func TestRegistration(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	e, err := saga.Open(s.store, s.types, s.bus, quiet)
	s.must(err)
	start := saga.StartOn(saga.StreamKey[placed], func(*saga.Context[state], placed) error { return nil })
	with := func(more ...saga.Option) *saga.Saga {
		def, err := saga.New[state]("a", append(more, start)...)
		s.must(err)
		return def
	}
	other := saga.On(saga.StreamKey[struct{}], func(*saga.Context[state], struct{}) error { return nil })
	for want, def := range map[string]*saga.Saga{
		"is nil": nil, "has no handler: register that first": with(saga.Sends[poke]()), "is not registered as an event": with(other),
	} {
		if err := e.Register(def, nil); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
	s.must(e.Register(with(), nil))
	if err := e.Register(with(), nil); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("a second saga of the name: %v", err)
	}
	elsewhere, err := command.Open(testengines.Memory(t), "shop", nil)
	s.must(err)
	if _, err := saga.Open(s.store, s.types, elsewhere, nil); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a bus on another log: %v", err)
	}
	s.must(e.Stop(t.Context()))
	if err := e.Start(t.Context()); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("start after stop: %v", err)
	}
	if err := s.records.Retry(t.Context(), "a-1"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("retry of none: %v", err)
	}
	for _, err := range s.records.History(t.Context(), "a-1") {
		if !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("history of none: %v", err)
		}
	}
	for _, err := range s.records.Find(t.Context(), "a", "half done") {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("find by no status: %v", err)
		}
	}
}

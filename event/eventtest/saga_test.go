package eventtest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/eventtest"
	"github.com/mainstemdev/mainstem/event/saga"
)

type (
	collect struct {
		command.Base
		Order string
		Items int
	}
	giveUp   struct{ Order string }
	progress struct{ Items int }
)

func (collect) CommandType() string { return "Collect" }
func (giveUp) CommandType() string  { return "GiveUp" }

// collecting is a saga that fails if it is not paid within 15 minutes.
func collecting(t testing.TB) *saga.Saga {
	t.Helper()
	s, err := saga.New[progress]("collecting",
		saga.StartOn(saga.StreamKey[Placed], func(c *saga.Context[progress], ev Placed) error {
			if ev.Item == "poison" {
				return errors.New("poison")
			}
			c.State.Items = len(ev.Lines)
			c.Compensate(giveUp{c.Key()})
			c.Dispatch(collect{Order: c.Key(), Items: c.State.Items})
			c.Timeout("late", 15*time.Minute)
			return nil
		}),
		saga.On(saga.StreamKey[Paid], func(c *saga.Context[progress], _ Paid) error {
			c.Complete()
			return nil
		}),
		saga.OnTimeout("late", func(c *saga.Context[progress]) error {
			if c.State.Items == 13 {
				return errors.New("unlucky")
			}
			c.Fail(errors.New("late"))
			return nil
		}),
		saga.Sends[collect](), saga.Sends[giveUp]())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGivenSaga(t *testing.T) {
	def := collecting(t)
	given := func(t testing.TB, events ...any) *eventtest.SagaCase {
		return eventtest.GivenSaga(t, def).Given(events...)
	}
	order := Placed{Lines: []line{{1}, {2}}}
	check(t, func(t testing.TB) {
		given(t, order).ThenCommands(collect{Order: "1", Items: 2}).ThenState("1", progress{2}).
			After(15*time.Minute).ThenCompensates(giveUp{"1"}).ThenStatus("1", saga.Compensated)
		given(t, eventtest.In("order-7", order, Paid{})).ThenCommands(collect{Order: "7", Items: 2}).
			After(time.Hour).ThenCommands().ThenStatus("7", saga.Completed).ThenNoSaga("1")
		given(t, order).Refused(collect{Order: "1", Items: 2}, errPaid).ThenCompensates(giveUp{"1"}).
			Refused(giveUp{"1"}, errPaid).ThenStatus("1", saga.CompensationFailed)
	})
	check(t, func(t testing.TB) {
		given(t, order).ThenCommands().ThenCommands(collect{Order: "2", Items: 2}).ThenCommands(giveUp{"1"}).ThenCompensates().
			ThenStatus("1", saga.Completed).ThenStatus("2", saga.Started).ThenState("1", progress{3}).ThenState("2", progress{}).ThenState("1", 7).ThenNoSaga("1")
	}, "1 commands were sent, want 0", `Order: got "1", want "2"`, "command 1 is a collect, and not the giveUp", "no saga compensates", "is started, want completed",
		`no saga with the key "2"`, "Items: got 2, want 3", `no saga with the key "2"`, "the state of saga collecting-1", "there is a saga collecting-1, which is started")
	check(t, func(t testing.TB) {
		given(t, order).After(time.Hour).ThenStatus("1", saga.Completed)
	}, "is compensated, want completed; it has failed: late")
	check(t, func(t testing.TB) { given(t, Placed{Item: "poison"}) }, "event Placed{Item:poison")
	check(t, func(t testing.TB) { given(t, Placed{Lines: make([]line, 13)}).After(time.Hour) }, "timeout late: unlucky")
	check(t, func(t testing.TB) { given(t, order).Refused(giveUp{"1"}, errPaid) }, "was not sent")
}

package saga_test

import (
	"context"
	"testing"

	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/saga"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
)

// Sagas of two stores with one type and one key send commands with equal IDs to one bus. All of them
// take effect, except those to which the sagas themselves give one ID: they are one command.
func TestTwoStoresOnOneBus(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	s.must(command.Handle(s.bus, func(ctx context.Context, b book) (command.Result, error) {
		return command.Result{}, kv.IncrementTo(ctx, command.Batch(ctx), s.effects, b.CommandID, 1)
	}))
	for _, name := range []string{"eu", "us"} {
		def, err := saga.New[state]("fulfilment", saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[state], _ placed) error {
			c.Dispatch(book{})
			c.Dispatch(book{Base: command.Base{CommandID: "yearly"}})
			c.Complete()
			return nil
		}), saga.Sends[book]())
		s.must(err)
		store, err := event.Open(s.log, name, nil)
		s.must(err)
		e, err := saga.Open(store, s.types, s.bus, quiet)
		s.must(err)
		s.must(e.Register(def, nil))
		s.must(e.Start(t.Context()))
		t.Cleanup(func() { s.stop(e) })
		ev, err := s.types.Encode(placed{"book"})
		s.must(err)
		_, err = store.Append(t.Context(), "order-1", event.AnyVersion, []event.Event{ev})
		s.must(err)
		testkit.Eventually(t, "both commands to be carried out", func() bool { return e.Stats()[0].Commands == 2 })
	}
	for id, want := range map[string]int{"fulfilment/1/1": 2, "yearly": 1} {
		if e, err := s.effects.Get(t.Context(), id); err != nil || e.Value != want {
			t.Errorf("command %s took effect %d times, %v: want %d", id, e.Value, err, want)
		}
	}
}

type book struct{ command.Base }

func (book) CommandType() string { return "Book" }

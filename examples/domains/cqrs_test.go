package domains_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/eventtest"
	"github.com/mainstemdev/mainstem/examples/domains"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// openBus handles the commands of orders.
func openBus(t *testing.T, log mainstem.Log, middleware ...command.Middleware) (*command.Bus, *eventtest.BusCase) {
	t.Helper()
	s := storeIn(t, log, "shop")
	orders := orderRepository(t, s)
	bus, err := command.Open(log, "shop", nil, middleware...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bus.Close(); err != nil {
			t.Error(err)
		}
	})
	types, typesErr := domains.Types()
	err = errors.Join(typesErr,
		command.HandleAggregate(bus, orders, func(_ context.Context, o *domains.Order, c domains.CreateOrder) error { return o.Create(c.Customer) }),
		command.HandleAggregate(bus, orders, func(_ context.Context, o *domains.Order, c domains.AddItem) error {
			return o.AddItem(c.SKU, c.Quantity, c.Cents)
		}),
		command.HandleAggregate(bus, orders, func(_ context.Context, o *domains.Order, c domains.ShipOrder) error { return o.Ship(c.Tracking) }),
	)
	if err != nil {
		t.Fatal(err)
	}
	return bus, eventtest.GivenBus(t, bus, s, types)
}

// Commands go through middleware to an aggregate; the same on a directory, a server, NATS and PostgreSQL.
func TestCQRS(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		bus, given := openBus(t, log,
			command.Recovery(), command.Logging(slog.New(slog.DiscardHandler)), command.CorrelationID(nil), command.CausationID(),
			command.Validation(), command.Timeout(time.Minute), command.Retry(command.RetryOptions{}), command.Idempotency(command.IdempotencyOptions{}))

		request := command.Base{CommandID: "cmd-1", CorrelationID: "request-123"}
		given.When(domains.CreateOrder{Base: request, Order: "1", Customer: "ann"}).ThenID("1").ThenVersion(1)
		given.When(domains.AddItem{Order: "1", SKU: "tea", Quantity: 2, Cents: 450}).ThenVersion(2)
		given.When(domains.AddItem{Order: "1"}).ThenFailsWith("sku: there is none").ThenFailsWith("quantity: 0: want 1 or more")

		once := domains.AddItem{Base: command.Base{CommandID: "cmd-2", CausationID: "cmd-1"}, Order: "1", SKU: "pot", Quantity: 1, Cents: 2000}
		given.When(once).ThenVersion(3).Then(domains.ItemAdded{SKU: "pot", Quantity: 1, Cents: 2000})
		if again, err := bus.Dispatch(t.Context(), once); err != nil || !again.Duplicate || again.Version != 3 {
			t.Errorf("the same command again: %+v, %v", again, err)
		}
		given.When(domains.ShipOrder{Order: "1", Tracking: "p1"}).ThenVersion(4)
		given.When(domains.ShipOrder{Order: "1", Tracking: "p2"}).ThenFails(domains.ErrShipped)

		evs, err := storeIn(t, log, "shop").Load(t.Context(), "order-1", nil)
		if err != nil || len(evs) != 4 {
			t.Fatalf("%d events, %v", len(evs), err)
		}
		if m := evs[0].Metadata; m.CorrelationID != "request-123" || m.CausationID != "cmd-1" {
			t.Errorf("the first event was caused by %+v", m)
		}
	})
}

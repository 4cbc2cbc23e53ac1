package domains_test

import (
	"testing"

	"github.com/mainstemdev/mainstem/event/eventtest"
	"github.com/mainstemdev/mainstem/examples/domains"
)

// The rules of an order. No log is needed.
func TestRules(t *testing.T) {
	created, tea, shipped := domains.OrderCreated{Customer: "ann"}, domains.ItemAdded{SKU: "tea", Quantity: 2, Cents: 450}, domains.OrderShipped{Tracking: "p1"}
	create := func(o *domains.Order) error { return o.Create("ann") }
	add := func(o *domains.Order) error { return o.AddItem("tea", 2, 450) }
	ship := func(o *domains.Order) error { return o.Ship("p1") }

	eventtest.Given(t, domains.NewOrder("")).When(create).Then(created)
	eventtest.Given(t, domains.NewOrder(""), created).When(create).ThenError(domains.ErrCreated)
	eventtest.Given(t, domains.NewOrder("")).When(add).ThenError(domains.ErrNotCreated)
	eventtest.Given(t, domains.NewOrder(""), created).When(add).Then(tea)
	eventtest.Given(t, domains.NewOrder(""), created).When(ship).ThenError(domains.ErrEmpty)
	eventtest.Given(t, domains.NewOrder(""), created, tea).When(ship).Then(shipped)
	eventtest.Given(t, domains.NewOrder(""), created, tea, shipped).When(add).ThenErrorContains("shipped")
	eventtest.Given(t, domains.NewOrder(""), created, tea, shipped).When(ship).ThenError(domains.ErrShipped)
	eventtest.Given(t, domains.NewOrder(""), created).When(func(*domains.Order) error { return nil }).ThenNothing()
}

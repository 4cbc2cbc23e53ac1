package domains

import (
	"errors"

	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/command"
)

// The events of an order.
type (
	OrderCreated struct{ Customer string }
	ItemAdded    struct {
		SKU      string
		Quantity int
		Cents    int // for one piece
	}
	OrderShipped struct{ Tracking string }
)

// Types returns the event types of an order.
func Types() (*event.Types, error) {
	types := event.NewTypes(nil)
	return types, errors.Join(
		event.Register[OrderCreated](types, "OrderCreated"),
		event.Register[ItemAdded](types, "ItemAdded"),
		event.Register[OrderShipped](types, "OrderShipped"),
	)
}

// Order is an order until it is shipped.
type Order struct {
	aggregate.Root
	Customer string
	Items    []ItemAdded
	Tracking string
}

// NewOrder returns an order without events.
func NewOrder(string) *Order { return new(Order) }

// Total returns the price of all items in cents.
func (o *Order) Total() int {
	total := 0
	for _, i := range o.Items {
		total += i.Quantity * i.Cents
	}
	return total
}

// Apply changes the order according to an event.
func (o *Order) Apply(ev any) error {
	switch ev := ev.(type) {
	case OrderCreated:
		o.Customer = ev.Customer
	case ItemAdded:
		o.Items = append(o.Items, ev)
	case OrderShipped:
		o.Tracking = ev.Tracking
	}
	return nil
}

// The errors with which an order refuses a command.
var (
	ErrCreated    = errors.New("the order has been created before")
	ErrNotCreated = errors.New("the order has not been created")
	ErrShipped    = errors.New("the order has been shipped")
	ErrEmpty      = errors.New("the order has no items")
)

// Create begins the order.
func (o *Order) Create(customer string) error {
	if o.Customer != "" {
		return ErrCreated
	}
	return aggregate.Raise(o, OrderCreated{customer})
}

// AddItem adds an item to an order that is not shipped.
func (o *Order) AddItem(sku string, quantity, cents int) error {
	if err := o.open(); err != nil {
		return err
	}
	return aggregate.Raise(o, ItemAdded{sku, quantity, cents})
}

// Ship hands the order over to a carrier.
func (o *Order) Ship(tracking string) error {
	if err := o.open(); err != nil {
		return err
	}
	if len(o.Items) == 0 {
		return ErrEmpty
	}
	return aggregate.Raise(o, OrderShipped{tracking})
}

func (o *Order) open() error {
	switch {
	case o.Customer == "":
		return ErrNotCreated
	case o.Tracking != "":
		return ErrShipped
	}
	return nil
}

// The commands.
type (
	CreateOrder struct {
		command.Base
		Order, Customer string
	}
	AddItem struct {
		command.Base
		Order, SKU      string
		Quantity, Cents int
	}
	ShipOrder struct {
		command.Base
		Order, Tracking string
	}
)

// CommandType returns the name of the command.
func (CreateOrder) CommandType() string { return "CreateOrder" }

// CommandType returns the name of the command.
func (AddItem) CommandType() string { return "AddItem" }

// CommandType returns the name of the command.
func (ShipOrder) CommandType() string { return "ShipOrder" }

// AggregateID returns the ID of the order.
func (c CreateOrder) AggregateID() string { return c.Order }

// AggregateID returns the ID of the order.
func (c AddItem) AggregateID() string { return c.Order }

// AggregateID returns the ID of the order.
func (c ShipOrder) AggregateID() string { return c.Order }

// Validate requires a customer.
func (c CreateOrder) Validate() error {
	if c.Customer == "" {
		return command.Invalid("customer", "there is none")
	}
	return nil
}

// Validate reports every invalid field.
func (c AddItem) Validate() error {
	var wrong []error
	if c.SKU == "" {
		wrong = append(wrong, command.Invalid("sku", "there is none"))
	}
	if c.Quantity < 1 {
		wrong = append(wrong, command.Invalid("quantity", "%d: want 1 or more", c.Quantity))
	}
	return errors.Join(wrong...)
}

// Validate requires a tracking number.
func (c ShipOrder) Validate() error {
	if c.Tracking == "" {
		return command.Invalid("tracking", "there is none")
	}
	return nil
}

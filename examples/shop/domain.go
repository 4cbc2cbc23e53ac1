package main

import (
	"errors"

	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/command"
)

// The events of an order.
type (
	OrderPlaced struct {
		Customer string
		Item     string
		Count    int
		Cents    int // for all pieces
	}
	OrderPaid      struct{ Cents int }
	OrderShipped   struct{ Parcel string }
	OrderCancelled struct{ Reason string }
)

func eventTypes() (*event.Types, error) {
	types := event.NewTypes(nil)
	return types, errors.Join(
		event.Register[OrderPlaced](types, "OrderPlaced"),
		event.Register[OrderPaid](types, "OrderPaid"),
		event.Register[OrderShipped](types, "OrderShipped"),
		event.Register[OrderCancelled](types, "OrderCancelled"),
	)
}

// Order is the aggregate: the rules of one order.
type Order struct {
	aggregate.Root
	Item   string
	Count  int
	Cents  int
	Status string // "", "placed", "paid", "shipped", "cancelled"
}

func newOrder(string) *Order { return new(Order) }

// Apply changes the order according to an event.
func (o *Order) Apply(ev any) error {
	switch ev := ev.(type) {
	case OrderPlaced:
		o.Item, o.Count, o.Cents, o.Status = ev.Item, ev.Count, ev.Cents, "placed"
	case OrderPaid:
		o.Status = "paid"
	case OrderShipped:
		o.Status = "shipped"
	case OrderCancelled:
		o.Status = "cancelled"
	}
	return nil
}

// The errors with which an order refuses a command.
var (
	ErrTwice     = errors.New("there is such an order already")
	ErrNotPlaced = errors.New("the order is not open")
	ErrAmount    = errors.New("the amount is not that of the order")
	ErrNotPaid   = errors.New("the order is not paid")
	ErrSoldOut   = errors.New("sold out")
)

// Place begins the order.
func (o *Order) Place(c PlaceOrder, cents int) error {
	if o.Status != "" {
		return ErrTwice
	}
	return aggregate.Raise(o, OrderPlaced{c.Customer, c.Item, c.Count, cents * c.Count})
}

// Pay pays the order in full.
func (o *Order) Pay(cents int) error {
	switch {
	case o.Status != "placed":
		return ErrNotPlaced
	case cents != o.Cents:
		return ErrAmount
	}
	return aggregate.Raise(o, OrderPaid{cents})
}

// Ship hands the order over to the carrier.
func (o *Order) Ship(parcel string) error {
	if o.Status != "paid" {
		return ErrNotPaid
	}
	return aggregate.Raise(o, OrderShipped{parcel})
}

// Cancel cancels an order that is not paid.
func (o *Order) Cancel(reason string) error {
	if o.Status != "placed" {
		return ErrNotPlaced
	}
	return aggregate.Raise(o, OrderCancelled{reason})
}

// ForOrder is the common part of all commands. The ID of the order is that of the aggregate.
type ForOrder struct {
	command.Base
	Order string `json:"order"`
}

// AggregateID returns the ID of the order.
func (c ForOrder) AggregateID() string { return c.Order }

// Validate requires the ID of an order.
func (c ForOrder) Validate() error {
	if c.Order == "" {
		return command.Invalid("order", "there is none")
	}
	return nil
}

func (c *ForOrder) identify(id string) { c.Base = command.Base{CommandID: id} }

// The commands.
type (
	PlaceOrder struct {
		ForOrder
		Customer string `json:"customer"`
		Item     string `json:"item"`
		Count    int    `json:"count"`
	}
	PayOrder struct {
		ForOrder
		Cents int `json:"cents"`
	}
	ShipOrder struct {
		ForOrder
		Parcel string `json:"parcel"`
	}
	CancelOrder struct {
		ForOrder
		Reason string `json:"reason"`
	}
)

func (PlaceOrder) CommandType() string  { return "PlaceOrder" }
func (PayOrder) CommandType() string    { return "PayOrder" }
func (ShipOrder) CommandType() string   { return "ShipOrder" }
func (CancelOrder) CommandType() string { return "CancelOrder" }

// Validate reports every invalid field.
func (c PlaceOrder) Validate() error {
	wrong := []error{c.ForOrder.Validate()}
	if c.Customer == "" {
		wrong = append(wrong, command.Invalid("customer", "there is none"))
	}
	if c.Count < 1 || c.Count > 100 {
		wrong = append(wrong, command.Invalid("count", "%d: want 1 to 100", c.Count))
	}
	return errors.Join(wrong...)
}

package command_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/kv"
)

// CartPaid is an event, Cart its aggregate, and Pay a command to it.
type (
	CartPaid struct{ Cents int }

	Cart struct {
		aggregate.Root
		Paid bool
	}

	Pay struct {
		command.Base
		Cart  string
		Cents int
	}
)

func (c *Cart) Apply(ev any) error {
	if _, ok := ev.(CartPaid); ok {
		c.Paid = true
	}
	return nil
}

func (Pay) CommandType() string   { return "Pay" }
func (p Pay) AggregateID() string { return p.Cart }

func (p Pay) Validate() error {
	if p.Cents <= 0 {
		return command.Invalid("cents", "%d: want more than 0", p.Cents)
	}
	return nil
}

func Example() {
	ctx := context.Background()
	log := model.New(nil) // or pebblelog.Open("data", nil)
	defer log.Close()
	store, _ := event.Open(log, "shop", nil)
	types := event.NewTypes(nil)
	event.Register[CartPaid](types, "CartPaid")
	carts, _ := aggregate.Open(store, types, "cart", func(string) *Cart { return new(Cart) }, nil)
	revenue, _ := kv.Open[int](log, "revenue", nil)

	bus, err := command.Open(log, "shop", nil, command.Validation(), command.Idempotency(command.IdempotencyOptions{}))
	if err != nil {
		panic(err)
	}
	defer bus.Close()
	command.HandleAggregate(bus, carts, func(ctx context.Context, c *Cart, cmd Pay) error {
		if c.Paid {
			return errors.New("paid already")
		}
		// The table and the event are one commit, with the record that the command was carried out.
		err := kv.IncrementTo(ctx, command.Batch(ctx), revenue, "today", cmd.Cents)
		return errors.Join(err, aggregate.Raise(c, CartPaid{cmd.Cents}))
	})

	once := Pay{Base: command.Base{CommandID: "c1"}, Cart: "42", Cents: 995}
	for _, cmd := range []Pay{once, once, {Cart: "42", Cents: 995}, {Cart: "43"}} {
		r, err := bus.Dispatch(ctx, cmd)
		fmt.Println(r.AggregateID, r.Version, r.Duplicate, err)
	}
	today, err := revenue.Get(ctx, "today")
	fmt.Println(today.Value, err)
	// Output:
	// 42 1 false <nil>
	// 42 1 true <nil>
	//  0 false paid already
	//  0 false command Pay: cents: 0: want more than 0
	// 995 <nil>
}

package aggregate_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
)

// Events of an order.
type (
	OrderPlaced struct{ Total int }
	OrderPaid   struct{}
)

// Order is an aggregate.
type Order struct {
	aggregate.Root
	Total int
	Paid  bool
}

func (o *Order) Apply(ev any) error {
	switch ev := ev.(type) {
	case OrderPlaced:
		o.Total = ev.Total
	case OrderPaid:
		o.Paid = true
	}
	return nil
}

func (o *Order) Place(total int) error { return aggregate.Raise(o, OrderPlaced{total}) }

func (o *Order) Pay() error {
	if o.Paid {
		return errors.New("paid already")
	}
	return aggregate.Raise(o, OrderPaid{})
}

func Example() {
	ctx := context.Background()
	log := model.New(nil) // or pebblelog.Open("data", nil)
	defer log.Close()
	store, _ := event.Open(log, "shop", nil)
	types := event.NewTypes(nil)
	event.Register[OrderPlaced](types, "OrderPlaced")
	event.Register[OrderPaid](types, "OrderPaid")
	orders, err := aggregate.Open(store, types, "order", func(string) *Order { return new(Order) }, &aggregate.Options{SnapshotEvery: 100})
	if err != nil {
		panic(err)
	}

	order := orders.New("42")
	order.Place(995)
	saved, err := orders.Save(ctx, order)
	fmt.Println(saved.Stream, saved.Last, err)

	_, err = orders.Update(ctx, "42", (*Order).Pay)
	fmt.Println(err)
	_, err = orders.Update(ctx, "42", (*Order).Pay)
	fmt.Println(err)

	order, err = orders.Load(ctx, "42")
	fmt.Println(order.Total, order.Paid, order.Version(), err)
	before, err := orders.LoadAt(ctx, "42", aggregate.AtVersion(1))
	fmt.Println(before.Paid, err)
	// Output:
	// order-42 1 <nil>
	// <nil>
	// paid already
	// 995 true 2 <nil>
	// false <nil>
}

// The same domain as pure functions.
func ExampleOpenDecider() {
	ctx := context.Background()
	log := model.New(nil)
	defer log.Close()
	store, _ := event.Open(log, "shop", nil)
	types := event.NewTypes(nil)
	event.Register[OrderPlaced](types, "OrderPlaced")
	event.Register[OrderPaid](types, "OrderPaid")

	type state struct{ Placed, Paid bool }
	orders, err := aggregate.OpenDecider(store, types, "order", aggregate.Decider[state, string, any]{
		Initial: func() state { return state{} },
		Decide: func(s state, command string) ([]any, error) {
			switch {
			case command == "place" && !s.Placed:
				return []any{OrderPlaced{995}}, nil
			case command == "pay" && s.Placed && !s.Paid:
				return []any{OrderPaid{}}, nil
			}
			return nil, fmt.Errorf("cannot %s an order in state %+v", command, s)
		},
		Evolve: func(s state, ev any) state {
			switch ev.(type) {
			case OrderPlaced:
				s.Placed = true
			case OrderPaid:
				s.Paid = true
			}
			return s
		},
	}, nil)
	if err != nil {
		panic(err)
	}
	for _, command := range []string{"pay", "place", "pay"} {
		done, err := orders.Handle(ctx, "42", command)
		fmt.Println(done.Last, err)
	}
	// Output:
	// 0 cannot pay an order in state {Placed:false Paid:false}
	// 1 <nil>
	// 2 <nil>
}

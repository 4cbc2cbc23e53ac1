package projection_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

type Total struct {
	Customer string
	Cents    int
}

func Example() {
	ctx := context.Background()
	log, err := pebblelog.OpenMemory(nil) // or Open("data", nil)
	if err != nil {
		panic(err)
	}
	defer log.Close()
	store, _ := event.Open(log, "shop", nil)
	types := event.NewTypes(nil)
	event.Register[paid](types, "Paid")
	totals, _ := readmodel.Open(log, "shop/totals", &readmodel.Options[Total]{Key: func(t Total) string { return t.Customer }})

	sums, err := projection.New("totals", 1, event.Filter{Category: "order"},
		projection.On(func(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
			return projection.Modify(ctx, tx, totals, ev.Customer, func(t Total, _ bool) (Total, error) {
				return Total{ev.Customer, t.Cents + ev.Cents}, nil
			})
		}))
	if err != nil {
		panic(err)
	}
	var events []event.Event
	for _, cents := range []int{995, 5, 100} {
		ev, _ := types.Encode(paid{"ann", cents})
		events = append(events, ev)
	}
	done, err := store.Append(ctx, "order-1", event.NoStream, events)
	if err != nil {
		panic(err)
	}

	engine, err := projection.Open(store, types, nil)
	if err = errors.Join(err, engine.Register(sums, nil), engine.Start(ctx)); err != nil {
		panic(err)
	}
	defer engine.Stop(ctx)
	if err := engine.WaitFor(ctx, "totals", done.LastPosition); err != nil { // read your writes
		panic(err)
	}
	ann, err := totals.Get(ctx, "ann")
	fmt.Println(ann.Cents, err)
	// Output: 1100 <nil>
}

// The row of an inline projection is there when the append returns.
func ExampleOpenInline() {
	ctx := context.Background()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		panic(err)
	}
	defer log.Close()
	store, _ := event.Open(log, "shop", nil)
	types := event.NewTypes(nil)
	event.Register[paid](types, "Paid")
	totals, _ := readmodel.Open(log, "shop/totals", &readmodel.Options[Total]{Key: func(t Total) string { return t.Customer }})
	sums, err := projection.New("totals", 1, event.Filter{Category: "order"},
		projection.On(func(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
			if ev.Cents < 0 {
				return errors.New("less than nothing")
			}
			return projection.Modify(ctx, tx, totals, ev.Customer, func(t Total, _ bool) (Total, error) {
				return Total{ev.Customer, t.Cents + ev.Cents}, nil
			})
		}))
	if err != nil {
		panic(err)
	}
	inline, err := projection.OpenInline(ctx, store, types, nil, sums.WithClear(totals.Clear))
	if err != nil {
		panic(err)
	}

	for _, cents := range []int{995, -5} {
		ev, _ := types.Encode(paid{"ann", cents})
		done, err := inline.Append(ctx, "order-1", event.AnyVersion, []event.Event{ev})
		ann, _ := totals.Get(ctx, "ann")
		fmt.Println(done.Last, ann.Cents, err)
	}
	// Output:
	// 1 995 <nil>
	// 0 995 projection totals: Paid: less than nothing
}

package saga_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/saga"
)

// Booked is an event, Reserve and Release are commands, and Trip is the state of a saga.
type (
	Booked  struct{ Hotel string }
	Reserve struct{ Trip, What string }
	Release struct{ Trip, What string }
	Trip    struct{ Hotel string }
)

func (Reserve) CommandType() string { return "Reserve" }
func (Release) CommandType() string { return "Release" }

func Example() {
	ctx := context.Background()
	log := model.New(nil) // or pebblelog.Open("data", nil)
	defer log.Close()
	store, _ := event.Open(log, "travel", nil)
	types := event.NewTypes(nil)
	event.Register[Booked](types, "Booked")
	bus, _ := command.Open(log, "travel", nil)
	defer bus.Close()
	released := make(chan string)
	command.Handle(bus, func(_ context.Context, c Reserve) (command.Result, error) {
		return command.Result{}, fmt.Errorf("no %s is free", c.What)
	})
	command.Handle(bus, func(_ context.Context, c Release) (command.Result, error) {
		released <- "released the " + c.What + " of trip " + c.Trip
		return command.Result{}, nil
	})

	trip, err := saga.New[Trip]("trip",
		saga.StartOn(saga.StreamKey[Booked], func(c *saga.Context[Trip], ev Booked) error {
			c.State.Hotel = ev.Hotel
			c.Compensate(Release{c.Key(), ev.Hotel})
			c.Dispatch(Reserve{c.Key(), "flight"})
			c.Timeout("late", time.Hour)
			return nil
		}),
		saga.OnTimeout("late", func(c *saga.Context[Trip]) error {
			c.Fail(errors.New("nothing was heard for an hour"))
			return nil
		}),
		saga.Sends[Reserve](), saga.Sends[Release]())
	if err != nil {
		panic(err)
	}
	sagas, err := saga.Open(store, types, bus, quiet)
	if err := errors.Join(err, sagas.Register(trip, nil), sagas.Start(ctx)); err != nil {
		panic(err)
	}
	booked, _ := types.Encode(Booked{"hotel"})
	if _, err := store.Append(ctx, "trip-7", event.NoStream, []event.Event{booked}); err != nil {
		panic(err)
	}
	fmt.Println(<-released)
	if err := sagas.Stop(ctx); err != nil {
		panic(err)
	}
	i, err := sagas.Get(ctx, saga.ID("trip", "7"))
	fmt.Println(i.Status, "-", i.Error, err)
	for e, err := range sagas.History(ctx, i.ID) {
		fmt.Println(e.Version, e.Step, e.Status, err)
	}
	// Output:
	// released the hotel of trip 7
	// compensated - no flight is free <nil>
	// 1 SagaStarted started <nil>
	// 2 SagaRefused compensating <nil>
	// 3 SagaCompensated compensated <nil>
}

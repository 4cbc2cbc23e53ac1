// Command fulfilment processes orders with a saga: payment, then shipping. When a later step is
// refused, or a customer does not pay in time, the earlier steps are compensated.
//
//	go run ./examples/fulfilment
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/saga"
	"github.com/mainstemdev/mainstem/kv"
)

// The events of an order.
type (
	OrderPlaced struct {
		Item  string
		Cents int
	}
	OrderPaid      struct{ Cents int }
	OrderShipped   struct{ Item string }
	OrderRefunded  struct{ Cents int }
	OrderCancelled struct{}
)

// The commands.
type (
	RequestPayment struct {
		command.Base
		Order string
		Cents int
	}
	Ship   struct{ Order, Item string }
	Refund struct {
		Order string
		Cents int
	}
	Cancel struct{ Order string }
)

func (RequestPayment) CommandType() string { return "RequestPayment" }
func (Ship) CommandType() string           { return "Ship" }
func (Refund) CommandType() string         { return "Refund" }
func (Cancel) CommandType() string         { return "Cancel" }

// Fulfilment is the state of the saga of one order.
type Fulfilment struct {
	Item  string
	Cents int
}

// patience is the time in which a customer must pay.
const patience = 15 * time.Minute

// fulfilment returns the saga.
func fulfilment() (*saga.Saga, error) {
	return saga.New[Fulfilment]("fulfilment",
		saga.StartOn(saga.StreamKey[OrderPlaced], func(c *saga.Context[Fulfilment], ev OrderPlaced) error {
			c.State = Fulfilment(ev)
			c.Compensate(Cancel{c.Key()})
			c.Dispatch(RequestPayment{Order: c.Key(), Cents: ev.Cents})
			c.Timeout("payment", patience)
			return nil
		}),
		saga.On(saga.StreamKey[OrderPaid], func(c *saga.Context[Fulfilment], _ OrderPaid) error {
			c.CancelTimeout("payment")
			c.Compensate(Refund{c.Key(), c.State.Cents})
			c.Dispatch(Ship{c.Key(), c.State.Item})
			return nil
		}),
		saga.On(saga.StreamKey[OrderShipped], func(c *saga.Context[Fulfilment], _ OrderShipped) error {
			c.Complete()
			return nil
		}),
		saga.OnTimeout("payment", func(c *saga.Context[Fulfilment]) error {
			c.Fail(errors.New("not paid in time"))
			return nil
		}),
		saga.Sends[RequestPayment](), saga.Sends[Ship](), saga.Sends[Refund](), saga.Sends[Cancel]())
}

// Shop is the service, with all its data in one log.
type Shop struct {
	store *event.Store
	types *event.Types
	stock *kv.Bucket[int]
	bus   *command.Bus
	sagas *saga.Engine
}

// OpenShop opens and starts the service. Close ends it.
func OpenShop(ctx context.Context, log mainstem.Log, logger *slog.Logger) (*Shop, error) {
	s := &Shop{types: event.NewTypes(nil)}
	var errs [4]error
	s.store, errs[0] = event.Open(log, "shop", nil)
	s.stock, errs[1] = kv.Open[int](log, "shop/stock", nil)
	s.bus, errs[2] = command.Open(log, "shop", nil, command.Recovery(), command.Retry(command.RetryOptions{}))
	errs[3] = errors.Join(
		event.Register[OrderPlaced](s.types, "OrderPlaced"), event.Register[OrderPaid](s.types, "OrderPaid"),
		event.Register[OrderShipped](s.types, "OrderShipped"), event.Register[OrderRefunded](s.types, "OrderRefunded"),
		event.Register[OrderCancelled](s.types, "OrderCancelled"))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	def, err := fulfilment()
	if err = errors.Join(err, s.handle()); err != nil {
		return nil, err
	}
	if s.sagas, err = saga.Open(s.store, s.types, s.bus, &saga.Options{Logger: logger}); err != nil {
		return nil, err
	}
	return s, errors.Join(s.sagas.Register(def, nil), s.sagas.Start(ctx))
}

// handle registers the handlers of the commands. The writes of each command are one commit.
func (s *Shop) handle() error {
	return errors.Join(
		command.Handle(s.bus, func(ctx context.Context, c RequestPayment) (command.Result, error) {
			return command.Result{}, nil // a real shop would send a message to the customer here
		}),
		command.Handle(s.bus, func(ctx context.Context, c Ship) (command.Result, error) {
			err := s.stock.ModifyTo(ctx, command.Batch(ctx), c.Item, func(left int, _ bool) (int, error) {
				if left == 0 {
					return 0, fmt.Errorf("%s is sold out", c.Item)
				}
				return left - 1, nil
			})
			return command.Result{}, errors.Join(err, s.happenTo(command.Batch(ctx), c.Order, OrderShipped{c.Item}))
		}),
		command.Handle(s.bus, func(ctx context.Context, c Refund) (command.Result, error) {
			return command.Result{}, s.happenTo(command.Batch(ctx), c.Order, OrderRefunded{c.Cents})
		}),
		command.Handle(s.bus, func(ctx context.Context, c Cancel) (command.Result, error) {
			return command.Result{}, s.happenTo(command.Batch(ctx), c.Order, OrderCancelled{})
		}),
	)
}

// happenTo appends an event to an order as part of b.
func (s *Shop) happenTo(b *mainstem.Batch, order string, v any) error {
	ev, err := s.types.Encode(v)
	if err == nil {
		s.store.AppendTo(b, "order-"+order, event.AnyVersion, []event.Event{ev})
	}
	return err
}

// Happen appends an event to an order in a commit of its own.
func (s *Shop) Happen(ctx context.Context, order string, v any) error {
	b := mainstem.NewBatch()
	if err := s.happenTo(b, order, v); err != nil {
		return err
	}
	_, err := s.store.Log().Commit(ctx, b)
	return err
}

// Await waits until the order has an event of a type.
func (s *Shop) Await(ctx context.Context, order, typ string) error {
	for r, err := range s.store.Feed(ctx, &event.FeedOptions{Filter: event.Filter{Streams: []string{"order-" + order}}, Follow: true}) {
		if err != nil || r.Type == typ {
			return err
		}
	}
	return nil
}

// Close waits for the commands under way.
func (s *Shop) Close(ctx context.Context) error {
	return errors.Join(s.sagas.Stop(ctx), s.bus.Close())
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "fulfilment:", err)
		os.Exit(1)
	}
}

// run sells one book twice.
func run(ctx context.Context) (err error) {
	log, err := pebblelog.OpenMemory(nil) // or Open("data", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	shop, err := OpenShop(ctx, log, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Close(ctx)) }()
	if _, err := shop.stock.Put(ctx, "book", 1); err != nil {
		return err
	}
	ends := map[string]string{"1": "OrderShipped", "2": "OrderCancelled"}
	for _, order := range []string{"1", "2"} {
		err := errors.Join(shop.Happen(ctx, order, OrderPlaced{"book", 995}), shop.Happen(ctx, order, OrderPaid{995}),
			shop.Await(ctx, order, ends[order]))
		if err != nil {
			return err
		}
		fmt.Println("order", order)
		for r, err := range shop.store.Events(ctx, "order-"+order, nil) {
			if err != nil {
				return err
			}
			fmt.Println(" ", r.Type, string(r.Data))
		}
	}
	i, err := shop.sagas.Get(ctx, saga.ID("fulfilment", "2"))
	fmt.Println("saga", i.ID, "has failed:", i.Error)
	return err
}

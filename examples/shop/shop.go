package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/kv"
)

// Article is the stock and the price of an item.
type Article struct {
	Left  int `json:"left"`
	Cents int `json:"cents"` // for one piece
}

// Summary is a row of the read model: an order as customers see it.
type Summary struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Item     string `json:"item"`
	Cents    int    `json:"cents"`
	Status   string `json:"status"`
	Parcel   string `json:"parcel,omitempty"`
}

// Shop is the service, with all its data in one log.
type Shop struct {
	stock  *kv.Bucket[Article]
	orders *readmodel.Table[Summary]
	bus    *command.Bus
	store  *event.Store
	types  *event.Types
}

// OpenShop opens the service. Close its bus to end it.
func OpenShop(ctx context.Context, log mainstem.Log, logger *slog.Logger) (*Shop, error) {
	types, err := eventTypes()
	if err != nil {
		return nil, err
	}
	s := &Shop{types: types}
	var errs [5]error
	s.store, errs[0] = event.Open(log, "shop", nil)
	s.stock, errs[1] = kv.Open[Article](log, "shop/stock", nil)
	s.orders, errs[2] = readmodel.Open(log, "shop/orders", &readmodel.Options[Summary]{Key: func(o Summary) string { return o.ID }})
	trail, err := command.OpenAudit(log, "shop")
	errs[3] = err
	// All orders of an article change one row of the stock, so concurrent ones conflict.
	retry := command.Retry(command.RetryOptions{Attempts: 50, First: time.Millisecond, Max: 50 * time.Millisecond})
	s.bus, errs[4] = command.Open(log, "shop", nil,
		command.Recovery(), command.Logging(logger), command.CorrelationID(nil), command.Validation(),
		command.Audit(command.AuditOptions{Log: trail, Logger: logger}), retry,
		command.Idempotency(command.IdempotencyOptions{}))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	summaries, err := s.summaries()
	if err != nil {
		return nil, err
	}
	inline, err := projection.OpenInline(ctx, s.store, s.types, nil, summaries)
	if err != nil {
		return nil, err
	}
	orders, err := aggregate.Open(s.store, s.types, "order", newOrder, &aggregate.Options{SnapshotEvery: 100, Inline: inline})
	if err != nil {
		return nil, err
	}
	return s, s.handle(orders)
}

// handle registers the handlers of the commands.
func (s *Shop) handle(orders *aggregate.Repository[*Order]) error {
	return errors.Join(
		command.HandleAggregate(s.bus, orders, func(ctx context.Context, o *Order, c PlaceOrder) error {
			a, err := s.take(ctx, c.Item, c.Count)
			if err != nil {
				return err
			}
			return o.Place(c, a.Cents)
		}),
		command.HandleAggregate(s.bus, orders, func(_ context.Context, o *Order, c PayOrder) error { return o.Pay(c.Cents) }),
		command.HandleAggregate(s.bus, orders, func(_ context.Context, o *Order, c ShipOrder) error { return o.Ship(c.Parcel) }),
		command.HandleAggregate(s.bus, orders, func(ctx context.Context, o *Order, c CancelOrder) error {
			if err := o.Cancel(c.Reason); err != nil {
				return err
			}
			_, err := s.take(ctx, o.Item, -o.Count)
			return err
		}),
	)
}

// take removes pieces from the stock in the commit of the command; a negative count returns them.
func (s *Shop) take(ctx context.Context, item string, count int) (a Article, err error) {
	err = s.stock.ModifyTo(ctx, command.Batch(ctx), item, func(old Article, found bool) (Article, error) {
		if !found || old.Left < count {
			return old, fmt.Errorf("%s: %w: %d are left", item, ErrSoldOut, old.Left)
		}
		old.Left -= count
		a = old
		return old, nil
	})
	return a, err
}

// summaries returns the inline projection that has a row for each order. The rows are written in
// the commits of the commands.
func (s *Shop) summaries() (*projection.Projection, error) {
	status := func(ctx context.Context, tx *projection.Tx, r event.Recorded, change func(*Summary)) error {
		id := event.ParseStreamID(r.Stream).ID
		return projection.Modify(ctx, tx, s.orders, id, func(o Summary, _ bool) (Summary, error) {
			o.ID = id
			change(&o)
			return o, nil
		})
	}
	p, err := projection.New("summaries", 1, event.Filter{Category: "order"},
		projection.On(func(ctx context.Context, tx *projection.Tx, ev OrderPlaced, r event.Recorded) error {
			return status(ctx, tx, r, func(o *Summary) {
				o.Customer, o.Item, o.Cents, o.Status = ev.Customer, ev.Item, ev.Cents, "placed"
			})
		}),
		projection.On(func(ctx context.Context, tx *projection.Tx, _ OrderPaid, r event.Recorded) error {
			return status(ctx, tx, r, func(o *Summary) { o.Status = "paid" })
		}),
		projection.On(func(ctx context.Context, tx *projection.Tx, ev OrderShipped, r event.Recorded) error {
			return status(ctx, tx, r, func(o *Summary) { o.Status, o.Parcel = "shipped", ev.Parcel })
		}),
		projection.On(func(ctx context.Context, tx *projection.Tx, _ OrderCancelled, r event.Recorded) error {
			return status(ctx, tx, r, func(o *Summary) { o.Status = "cancelled" })
		}))
	if err != nil {
		return nil, err
	}
	return p.WithClear(s.orders.Clear), nil
}

// Restock sets the stock and the price of an item.
func (s *Shop) Restock(ctx context.Context, item string, a Article) error {
	_, err := s.stock.Put(ctx, item, a)
	return err
}

// Open returns the orders of a customer that are neither shipped nor cancelled, the most expensive
// first.
func (s *Shop) Open(ctx context.Context, customer string) ([]Summary, error) {
	return s.orders.Find(ctx, readmodel.Where("Customer", readmodel.Eq, customer).
		And("Status", readmodel.In, "placed", "paid").OrderBy("Cents", readmodel.Desc))
}

package domains_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/examples/domains"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// orderSummary is a row of the read model.
type orderSummary struct {
	ID, Customer, Status string
	Items, Cents         int
}

// summaries is the projection that keeps a row for each order.
func summaries(t *testing.T, rows *readmodel.Table[orderSummary]) *projection.Projection {
	t.Helper()
	change := func(ctx context.Context, tx *projection.Tx, r event.Recorded, f func(*orderSummary)) error {
		return projection.Modify(ctx, tx, rows, r.Stream, func(o orderSummary, _ bool) (orderSummary, error) {
			o.ID = r.Stream
			f(&o)
			return o, nil
		})
	}
	p, err := projection.New("summaries", 1, event.Filter{Category: "order"},
		projection.On(func(ctx context.Context, tx *projection.Tx, ev domains.OrderCreated, r event.Recorded) error {
			return change(ctx, tx, r, func(o *orderSummary) { o.Customer, o.Status = ev.Customer, "created" })
		}),
		projection.On(func(ctx context.Context, tx *projection.Tx, ev domains.ItemAdded, r event.Recorded) error {
			return change(ctx, tx, r, func(o *orderSummary) { o.Items++; o.Cents += ev.Quantity * ev.Cents })
		}),
		projection.On(func(ctx context.Context, tx *projection.Tx, _ domains.OrderShipped, r event.Recorded) error {
			return change(ctx, tx, r, func(o *orderSummary) { o.Status = "shipped" })
		}))
	if err != nil {
		t.Fatal(err)
	}
	return p.WithClear(rows.Clear)
}

// The rows of an inline projection are there when a save returns. A live projection shows new
// events on a dashboard.
func TestProjections(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		ctx, s := t.Context(), storeIn(t, log, "shop")
		types, err := domains.Types()
		if err != nil {
			t.Fatal(err)
		}
		rows, err := readmodel.Open(log, "shop/summaries", &readmodel.Options[orderSummary]{Key: func(o orderSummary) string { return o.ID }})
		if err != nil {
			t.Fatal(err)
		}
		inline, err := projection.OpenInline(ctx, s, types, nil, summaries(t, rows))
		if err != nil {
			t.Fatal(err)
		}
		orders, err := aggregate.Open(s, types, "order", domains.NewOrder, &aggregate.Options{Inline: inline})
		if err != nil {
			t.Fatal(err)
		}

		board := make(chan string, 10)
		live, err := projection.New("board", 1, event.Filter{Category: "order"},
			projection.On(func(_ context.Context, _ *projection.Tx, _ domains.OrderCreated, r event.Recorded) error {
				board <- "new: " + r.Stream
				return nil
			}),
			projection.On(func(_ context.Context, _ *projection.Tx, ev domains.OrderShipped, r event.Recorded) error {
				board <- fmt.Sprint("shipped: ", r.Stream, " as ", ev.Tracking)
				return nil
			}))
		engine, openErr := projection.Open(s, types, nil)
		if err := errors.Join(err, openErr); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(engine.RegisterLive(live, nil), engine.Start(ctx)); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := engine.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		testkit.Eventually(t, "the board sees what comes", func() bool {
			status, err := engine.Status(ctx, "board")
			return err == nil && status.State == projection.Running
		})

		for _, id := range []string{"1", "2"} {
			if _, err := orders.UpdateOrNew(ctx, id, func(o *domains.Order) error {
				return errors.Join(o.Create("ann"), o.AddItem("tea", 2, 450), o.AddItem("pot", 1, 2000))
			}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := orders.Update(ctx, "1", func(o *domains.Order) error { return o.Ship("p1") }); err != nil {
			t.Fatal(err)
		}

		// No wait is necessary: the rows are in the commits of the events.
		shipped, err := rows.Find(ctx, readmodel.Where("Status", readmodel.Eq, "shipped"))
		if want := []orderSummary{{"order-1", "ann", "shipped", 2, 2900}}; err != nil || !slices.Equal(shipped, want) {
			t.Errorf("%+v, %v; want %+v", shipped, err, want)
		}
		if n, err := rows.Count(ctx, readmodel.All()); n != 2 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
		for _, want := range []string{"new: order-1", "new: order-2", "shipped: order-1 as p1"} {
			if got := <-board; got != want {
				t.Errorf("the board shows %q, want %q", got, want)
			}
		}
	})
}

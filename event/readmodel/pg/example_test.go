package readmodelpg_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	readmodelpg "github.com/mainstemdev/mainstem/event/readmodel/pg"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

type Order struct {
	ID     string `sql:",pk"`
	Status string `sql:",index=status_total"`
	Total  int64  `sql:",index=status_total"`
	Note   *string
}

type OrderPlaced struct{ Total int64 }

type OrderPaid struct{}

func Example() {
	ctx := context.Background()
	url, err := testpostgres.ExampleDB(ctx) // postgres://user@host:5432/database
	if err != nil {
		panic(err)
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	db, err := readmodelpg.New(pool, nil)
	if err != nil {
		panic(err)
	}
	orders, err := readmodelpg.Open[Order](ctx, db, "shop.orders")
	if err != nil {
		panic(err)
	}
	err = errors.Join(
		orders.Insert(ctx, Order{ID: "1", Status: "pending", Total: 995}),
		orders.Insert(ctx, Order{ID: "2", Status: "paid", Total: 50}),
		orders.Upsert(ctx, Order{ID: "3", Status: "pending", Total: 1200}),
	)
	fmt.Println(err)

	found, err := orders.Find(ctx, readmodel.Where("Status", readmodel.Eq, "pending").OrderBy("Total", readmodel.Desc))
	for _, o := range found {
		fmt.Println(o.ID, o.Total)
	}
	fmt.Println(err)
	_, err = orders.Count(ctx, readmodel.Where("State", readmodel.Eq, "pending"))
	fmt.Println(err)

	// A part of a transaction of the program's own.
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return orders.In(tx).Delete(ctx, "1") })
	fmt.Println(err)
	var sum int64
	err = pool.QueryRow(ctx, "SELECT sum(total) FROM shop.orders").Scan(&sum)
	fmt.Println(sum, err)
	// Output:
	// <nil>
	// 3 1200
	// 1 995
	// <nil>
	// query: field "State" of readmodelpg_test.Order: readmodelpg_test.Order has no exported field "State"
	// <nil>
	// 1250 <nil>
}

func ExampleModify() {
	ctx := context.Background()
	url, err := testpostgres.ExampleDB(ctx)
	if err != nil {
		panic(err)
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	log := model.New(nil) // or pglog.Open(ctx, url, nil), and then rows and checkpoint are one transaction
	defer log.Close()
	store, err := event.Open(log, "shop", nil)
	if err != nil {
		panic(err)
	}
	types := event.NewTypes(nil)
	if err := errors.Join(event.Register[OrderPlaced](types, "OrderPlaced"), event.Register[OrderPaid](types, "OrderPaid")); err != nil {
		panic(err)
	}
	db, err := readmodelpg.New(pool, nil)
	if err != nil {
		panic(err)
	}
	orders, err := readmodelpg.Open[Order](ctx, db, "orders")
	if err != nil {
		panic(err)
	}

	p, err := projection.New("orders", 1, event.Filter{Category: "order"},
		projection.On(func(_ context.Context, tx *projection.Tx, ev OrderPlaced, r event.Recorded) error {
			readmodelpg.Put(tx, orders, Order{ID: r.Stream, Status: "open", Total: ev.Total})
			return nil
		}),
		projection.On(func(ctx context.Context, tx *projection.Tx, _ OrderPaid, r event.Recorded) error {
			return readmodelpg.Modify(ctx, tx, orders, r.Stream, func(o Order, found bool) (Order, error) {
				o.Status = "paid"
				return o, nil
			})
		}))
	if err != nil {
		panic(err)
	}
	engine, err := projection.Open(store, types, nil)
	if err != nil {
		panic(err)
	}
	err = engine.Register(p.WithTarget(db).WithClear(orders.Clear), nil)
	if err := errors.Join(err, engine.Start(ctx)); err != nil {
		panic(err)
	}
	defer engine.Stop(ctx)

	placed, err1 := types.Encode(OrderPlaced{Total: 995})
	paid, err2 := types.Encode(OrderPaid{})
	done, err := store.Append(ctx, "order-42", event.NoStream, []event.Event{placed, paid})
	if err := errors.Join(err1, err2, err, engine.WaitFor(ctx, "orders", done.LastPosition)); err != nil {
		panic(err)
	}
	o, err := orders.Get(ctx, "order-42")
	fmt.Println(o.Status, o.Total, err)
	// Output: paid 995 <nil>
}

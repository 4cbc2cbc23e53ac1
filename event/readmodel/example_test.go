package readmodel_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

type Order struct {
	ID, Status string
	Total      int
}

func Example() {
	ctx := context.Background()
	log := model.New(nil) // or pebblelog.Open("data", nil)
	defer log.Close()
	orders, err := readmodel.Open(log, "shop/orders", &readmodel.Options[Order]{Key: func(o Order) string { return o.ID }})
	if err != nil {
		panic(err)
	}
	err = errors.Join(
		orders.Upsert(ctx, Order{"1", "pending", 995}),
		orders.Upsert(ctx, Order{"2", "paid", 50}),
		orders.Upsert(ctx, Order{"3", "pending", 1200}),
	)
	if err != nil {
		panic(err)
	}

	found, err := orders.Find(ctx, readmodel.Where("Status", readmodel.Eq, "pending").OrderBy("Total", readmodel.Desc))
	for _, o := range found {
		fmt.Println(o.ID, o.Total)
	}
	fmt.Println(err)

	_, err = orders.Count(ctx, readmodel.Where("State", readmodel.Eq, "pending"))
	fmt.Println(err)
	// Output:
	// 3 1200
	// 1 995
	// <nil>
	// query: field "State" of readmodel_test.Order: readmodel_test.Order has no exported field "State"
}

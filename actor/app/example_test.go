package app_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/app"
)

func Example() {
	node, err := actor.Open("shop", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	hello := func(name string, needs ...string) app.App {
		return app.App{
			Name: name, Needs: needs,
			Start: func() error { fmt.Println(name, "starts"); return nil },
			Stop:  func() { fmt.Println(name, "stops") },
		}
	}
	if _, err := app.Start(node, nil, hello("web", "orders"), hello("orders", "store"), hello("store")); err != nil {
		fmt.Println(err)
		return
	}
	_ = node.Stop(context.Background())
	// Output:
	// store starts
	// orders starts
	// web starts
	// web stops
	// orders stops
	// store stops
}

package cron_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cron"
)

func Example() {
	node, err := actor.Open("office", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	lights, err := actor.Spawn(node, actor.Func[string](func(_ *actor.Context[string], m string) error {
		fmt.Println("lights", m)
		return nil
	}), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	on := cron.Send("lights on", "30 7 * * MON-FRI", lights, func(time.Time) string { return "on" })
	off := cron.Send("lights off", "0 19 * * *", lights, func(time.Time) string { return "off" })
	c, err := cron.Start(node, nil, on, off)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(c.Run(ctx, "lights on")) // early today
	_ = node.Stop(ctx)
	// Unordered output:
	// <nil>
	// lights on
}

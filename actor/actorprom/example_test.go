package actorprom_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actorprom"
)

func Example() {
	metrics := actorprom.New(nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)

	node, err := actor.Open("shop", &actor.NodeOptions{Observer: metrics})
	if err != nil {
		fmt.Println(err)
		return
	}
	greet := actor.Func[string](func(*actor.Context[string], string) error { return nil })
	ref, err := actor.Spawn(node, greet, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = ref.Send(ctx, "hello")
	_ = node.Stop(ctx)

	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		fmt.Println(f.GetName(), len(f.GetMetric()))
	}
	// Output:
	// mainstem_actor_ended_total 1
	// mainstem_actor_handled_seconds 1
	// mainstem_actor_started_total 1
	// mainstem_actor_waited_seconds 1
}

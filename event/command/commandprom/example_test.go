package commandprom_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/command/commandprom"
)

func ExampleMetrics() {
	log := model.New(nil)
	defer log.Close()
	metrics, registry := commandprom.New(nil), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	bus, err := command.Open(log, "shop", nil, metrics.Middleware())
	if err != nil {
		panic(err)
	}
	command.Handle(bus, func(context.Context, do) (command.Result, error) { return command.Result{}, nil })

	bus.Dispatch(context.Background(), do{})
	families, err := registry.Gather()
	for _, f := range families {
		fmt.Println(f.GetName())
	}
	fmt.Println(err)
	// Output:
	// mainstem_command_handled_total
	// mainstem_command_running
	// mainstem_command_seconds
	// <nil>
}

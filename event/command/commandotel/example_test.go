package commandotel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/command/commandotel"
)

func ExampleTracing() {
	log := model.New(nil)
	defer log.Close()
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans)) // or one that exports
	bus, err := command.Open(log, "shop", nil, commandotel.Tracing(provider))
	if err != nil {
		panic(err)
	}
	command.Handle(bus, func(context.Context, do) (command.Result, error) { return command.Result{AggregateID: "42"}, nil })

	bus.Dispatch(context.Background(), do{})
	for _, span := range spans.Ended() {
		fmt.Println(span.Name(), span.Attributes()[0].Value.AsString())
	}
	// Output: command.Do 42
}

package actorotel_test

import (
	"context"
	"fmt"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actorotel"
)

func Example() {
	exporter := tracetest.NewInMemoryExporter() // a program exports to its collector
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	node, err := actor.Open("shop", &actor.NodeOptions{Tracer: actorotel.New(&actorotel.Options{Provider: provider})})
	if err != nil {
		fmt.Println(err)
		return
	}
	greeter, err := actor.Spawn(node, actor.Func[string](func(*actor.Context[string], string) error { return nil }), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, request := provider.Tracer("example").Start(context.Background(), "request")
	_ = greeter.Send(ctx, "hello")
	_ = node.Stop(context.Background())
	request.End()
	for _, s := range exporter.GetSpans() {
		fmt.Println(s.Name, s.SpanContext.TraceID() == request.SpanContext().TraceID())
	}
	// Output:
	// receive actor.Func[string] true
	// request true
}

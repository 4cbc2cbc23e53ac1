package domains_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/command/commandotel"
	"github.com/mainstemdev/mainstem/event/command/commandprom"
	"github.com/mainstemdev/mainstem/examples/domains"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// Commands are counted by type and outcome.
func TestMetrics(t *testing.T) {
	metrics, registry := commandprom.New(nil), prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	_, given := openBus(t, testengines.Memory(t), metrics.Middleware(), command.Validation())
	for _, id := range []string{"1", "2", "3"} {
		given.When(domains.CreateOrder{Order: id, Customer: "ann"}).ThenSucceeds()
	}
	given.When(domains.CreateOrder{Order: "1", Customer: "bob"}).ThenFails(domains.ErrCreated)
	given.When(domains.CreateOrder{Order: "4"}).ThenFailsWith("customer: there is none")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64) // by outcome
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "mainstem_command_handled_total" {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if want := map[string]float64{"ok": 3, "invalid": 1, "failed": 1}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Each command is a span, a child of the span of the request.
func TestTracing(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	bus, _ := openBus(t, testengines.Memory(t), commandotel.Tracing(provider), command.Validation())
	ctx, request := provider.Tracer("http").Start(t.Context(), "POST /orders")
	_, err := bus.Dispatch(ctx, domains.CreateOrder{Order: "1", Customer: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Dispatch(ctx, domains.AddItem{Order: "1"}); err == nil {
		t.Fatal("a command that is wrong was handled")
	}
	request.End()
	var names []string
	for _, s := range spans.Ended() {
		names = append(names, s.Name())
		if s.Name() != "POST /orders" && s.Parent().SpanID() != request.SpanContext().SpanID() {
			t.Errorf("%s stands below %v", s.Name(), s.Parent())
		}
	}
	if want := []string{"command.CreateOrder", "command.AddItem", "POST /orders"}; !slices.Equal(names, want) {
		t.Errorf("spans %v, want %v", names, want)
	}
	if errs := spans.Ended()[1].Events(); len(errs) == 0 {
		t.Error("the span of the command that failed has no error")
	}
}

package actorotel_test

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actorotel"
)

func TestTracesGoOnAtOtherNodes(t *testing.T) {
	tracer := actorotel.New(nil)
	id := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	bag, err := baggage.Parse("user=ada,shop=1")
	if err != nil {
		t.Fatal(err)
	}
	ctx := baggage.ContextWithBaggage(trace.ContextWithSpanContext(context.Background(), id), bag)
	sent := tracer.Sent(ctx, actor.Ref[int]{})
	back, done := tracer.Received(context.Background(), tracer.Extract(t.Context(), tracer.Inject(t.Context(), sent)), actor.Ref[int]{})
	defer done(nil)
	if got := trace.SpanContextFromContext(back); got.TraceID() != id.TraceID() {
		t.Errorf("trace %s, want %s", got.TraceID(), id.TraceID())
	}
	if got := baggage.FromContext(back).Member("user").Value(); got != "ada" {
		t.Errorf("baggage %q", got)
	}
	if tracer.Inject(t.Context(), tracer.Sent(context.Background(), actor.Ref[int]{})) != nil {
		t.Error("headers of nothing")
	}
	for _, text := range []string{"", "x", "traceparent:nonsense\n", "baggage:=\n", strings.Repeat("x", 1<<20)} {
		if got := tracer.Extract(t.Context(), []byte(text)); got != nil {
			t.Errorf("%.20q was read as %v", text, got)
		}
	}
}

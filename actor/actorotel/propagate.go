package actorotel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mainstemdev/mainstem/actor"
)

var _ actor.Propagator = (*Tracer)(nil)

// headers are what crosses the wire: those of W3C Trace Context and Baggage, each on a
// line of its own, its name and value divided by a colon.
var headers = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// maxHeaders is how many bytes of headers are sent and read. A longer baggage stays behind.
const maxHeaders = 4096

// Inject returns the headers of what Sent returned.
func (*Tracer) Inject(life context.Context, on any) []byte {
	c, ok := on.(carried)
	if !ok {
		return nil
	}
	ctx := trace.ContextWithSpanContext(life, c.span)
	if text := write(baggage.ContextWithBaggage(ctx, c.bag)); len(text) <= maxHeaders {
		return text
	}
	return write(ctx)
}

func write(ctx context.Context) (text []byte) {
	h := propagation.MapCarrier{}
	headers.Inject(ctx, h)
	for name, value := range h {
		text = append(text, name+":"+value+"\n"...)
	}
	return text
}

// Extract is the inverse of Inject.
func (*Tracer) Extract(life context.Context, text []byte) any {
	if len(text) > maxHeaders {
		return nil
	}
	h := propagation.MapCarrier{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":"); ok {
			h[name] = value
		}
	}
	ctx := headers.Extract(life, h)
	c := carried{trace.SpanContextFromContext(ctx), baggage.FromContext(ctx)}
	if !c.span.IsValid() && c.bag.Len() == 0 {
		return nil
	}
	return c
}

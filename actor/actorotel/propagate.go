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

// headers reads and writes the headers of W3C Trace Context and W3C Baggage. Between nodes they are
// encoded as one line for each header: its name, a colon, its value, "\n".
var headers = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// maxHeaders is the greatest number of bytes of headers that Extract reads. Inject leaves the
// baggage out if there are more.
const maxHeaders = 4096

// Inject returns the encoded headers of a value of Sent.
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

// write returns the encoded headers of ctx.
func write(ctx context.Context) (text []byte) {
	h := propagation.MapCarrier{}
	headers.Inject(ctx, h)
	for name, value := range h {
		text = append(text, name+":"+value+"\n"...)
	}
	return text
}

// Extract is the inverse of Inject. It returns nil if there is neither a trace nor a baggage, or
// text is longer than maxHeaders.
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

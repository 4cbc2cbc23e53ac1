package actorotel

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mainstemdev/mainstem/actor"
)

// Options configure a [Tracer]; nil means the defaults.
type Options struct {
	// Provider makes the spans. Default: the global one of OpenTelemetry.
	Provider trace.TracerProvider
	// Roots begins a trace for every message that has none. Default: such messages have no span.
	Roots bool
}

// scope is the name of the instrumentation.
const scope = "github.com/mainstemdev/mainstem/actor/actorotel"

// Tracer is an [actor.Tracer]. Make it with [New].
type Tracer struct {
	tracer trace.Tracer
	roots  bool
}

var _ actor.Tracer = (*Tracer)(nil)

// New makes a tracer. Pass it to a node.
func New(o *Options) *Tracer {
	if o == nil {
		o = &Options{}
	}
	p := o.Provider
	if p == nil {
		p = otel.GetTracerProvider()
	}
	return &Tracer{tracer: p.Tracer(scope), roots: o.Roots}
}

// carried is the value that a message carries: see actor.Tracer.
type carried struct {
	span trace.SpanContext
	bag  baggage.Baggage
}

// Sent returns the trace and baggage of ctx, nil if there is neither.
func (*Tracer) Sent(ctx context.Context, _ actor.AnyRef) any {
	c := carried{trace.SpanContextFromContext(ctx), baggage.FromContext(ctx)}
	if !c.span.IsValid() && c.bag.Len() == 0 {
		return nil
	}
	return c
}

// Received begins the span of a message and returns a context with it, and the function that ends
// it.
func (t *Tracer) Received(ctx context.Context, on any, by actor.AnyRef) (context.Context, func(reason error)) {
	c, _ := on.(carried)
	if c.bag.Len() > 0 {
		ctx = baggage.ContextWithBaggage(ctx, c.bag)
	}
	if !c.span.IsValid() && !t.roots {
		return ctx, func(error) {}
	}
	ctx = trace.ContextWithSpanContext(ctx, c.span)
	kind := actor.TypeOf(by)
	ctx, span := t.tracer.Start(ctx, "receive "+kind, trace.WithSpanKind(trace.SpanKindConsumer))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("actor.type", kind), attribute.String("actor.address", by.Address().String()))
	}
	return ctx, func(reason error) {
		defer span.End()
		if reason != nil && actor.IsCrash(reason) {
			span.RecordError(reason)
			span.SetStatus(codes.Error, reason.Error())
		}
	}
}

package actorotel_test

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/actorotel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// relay passes a message on to the next, if there is one, and fails otherwise.
type relay struct {
	next actor.Ref[int]
	bags chan string
}

var errEnd = errors.New("the end of the line")

func (r *relay) Receive(c *actor.Context[int], m int) error {
	r.bags <- baggage.FromContext(c).Member("user").Value()
	if r.next.IsZero() {
		return errEnd
	}
	return r.next.Send(c, m)
}

func open(t *testing.T, roots bool) (*actor.Node, *sdk.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	node, err := actor.Open("test", &actor.NodeOptions{Tracer: actorotel.New(&actorotel.Options{Provider: provider, Roots: roots})})
	if err != nil {
		t.Fatal(err)
	}
	return node, provider, spans
}

func spawn(t *testing.T, node *actor.Node, name string, r *relay) actor.Ref[int] {
	t.Helper()
	ref, err := actor.Spawn(node, r, &actor.Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestSpansRideOnMessages(t *testing.T) {
	node, provider, exporter := open(t, false)
	bags := make(chan string, 3)
	b := spawn(t, node, "b", &relay{bags: bags})
	a := spawn(t, node, "a", &relay{b, bags})
	member, err := baggage.NewMember("user", "ann")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	ctx, root := provider.Tracer("test").Start(baggage.ContextWithBaggage(t.Context(), bag), "root")
	if err := a.Send(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := actor.Wait(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	root.End()
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if one, two := <-bags, <-bags; one != "ann" || two != "ann" {
		t.Errorf("baggage %q, %q", one, two)
	}
	spans := make(map[string]tracetest.SpanStub)
	for _, s := range exporter.GetSpans() {
		name := s.Name
		for _, attr := range s.Attributes {
			if attr.Key == "actor.address" {
				name = attr.Value.AsString()
			}
		}
		spans[name] = s
	}
	sa, sb := spans["test/a"], spans["test/b"]
	if len(spans) != 3 || sa.Parent.SpanID() != root.SpanContext().SpanID() || sb.Parent.SpanID() != sa.SpanContext.SpanID() ||
		sb.SpanContext.TraceID() != root.SpanContext().TraceID() {
		t.Errorf("spans %+v: want root, then a, then b", spans)
	}
	if sa.Name != "receive *actorotel_test.relay" || sa.SpanKind != trace.SpanKindConsumer || sa.Status.Code != codes.Unset ||
		sa.Attributes[0] != attribute.String("actor.type", "*actorotel_test.relay") {
		t.Errorf("span of a: %+v", sa)
	}
	if sb.Status.Code != codes.Error || sb.Status.Description != errEnd.Error() || len(sb.Events) != 1 {
		t.Errorf("span of b: %+v: want its error", sb)
	}
}

func TestMessagesWithoutATrace(t *testing.T) {
	for roots, want := range map[bool]int{false: 0, true: 1} {
		node, _, exporter := open(t, roots)
		bags := make(chan string, 1)
		r := spawn(t, node, "r", &relay{bags: bags})
		if err := r.Send(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := actor.Wait(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := node.Close(); err != nil {
			t.Fatal(err)
		}
		if n := len(exporter.GetSpans()); n != want {
			t.Errorf("with Roots %t: %d spans, want %d", roots, n, want)
		}
	}
}

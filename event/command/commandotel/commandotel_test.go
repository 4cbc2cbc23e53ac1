package commandotel_test

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/command/commandotel"
)

type do struct {
	command.Base
	Err error
}

func (do) CommandType() string { return "Do" }

func TestTracing(t *testing.T) {
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	spans := tracetest.NewSpanRecorder()
	bus, err := command.Open(log, "test", nil, commandotel.Tracing(trace.NewTracerProvider(trace.WithSpanProcessor(spans))))
	if err != nil {
		t.Fatal(err)
	}
	err = command.Handle(bus, func(ctx context.Context, cmd do) (command.Result, error) {
		if cmd.CommandID == "outer" { // its span is the parent
			if _, err := bus.Dispatch(ctx, do{Base: command.Base{CommandID: "inner"}}); err != nil {
				return command.Result{}, err
			}
		}
		if cmd.CommandID == "panic" {
			panic("as asked")
		}
		return command.Result{AggregateID: "42", Version: 7}, cmd.Err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Dispatch(t.Context(), do{Base: command.Base{CommandID: "outer"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Dispatch(t.Context(), do{Err: errors.New("no")}); err == nil {
		t.Fatal("no error")
	}
	func() {
		defer func() {
			if v := recover(); v != "as asked" {
				t.Errorf("the panic is %v", v)
			}
		}()
		_, _ = bus.Dispatch(t.Context(), do{Base: command.Base{CommandID: "panic"}})
	}()
	got := spans.Ended()
	if len(got) != 4 {
		t.Fatalf("%d spans, want 4", len(got))
	}
	inner, outer, failed, panicked := got[0], got[1], got[2], got[3]
	if inner.Name() != "command.Do" || inner.Parent().SpanID() != outer.SpanContext().SpanID() {
		t.Errorf("the inner span is %s below %s", inner.Name(), inner.Parent().SpanID())
	}
	attrs := map[string]string{}
	for _, a := range outer.Attributes() {
		attrs[string(a.Key)] = a.Value.String()
	}
	if attrs["command.id"] != "outer" || attrs["command.aggregate_id"] != "42" || attrs["command.aggregate_version"] != "7" {
		t.Errorf("the attributes are %v", attrs)
	}
	if failed.Status().Code != codes.Error || failed.Status().Description != "no" || len(failed.Events()) != 1 {
		t.Errorf("the failed span has status %+v and %d events", failed.Status(), len(failed.Events()))
	}
	if panicked.Status().Code != codes.Error || len(panicked.Events()) != 1 {
		t.Errorf("the span of the panic has status %+v and %d events", panicked.Status(), len(panicked.Events()))
	}
}

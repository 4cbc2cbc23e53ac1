package command_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
)

// BenchmarkDispatch compares a command that raises one event with the append of that
// event alone, on a directory at durability os. A full bus is Recovery, Validation,
// CorrelationID, Audit and Idempotency.
func BenchmarkDispatch(b *testing.B) {
	log, err := pebblelog.Open(b.TempDir(), &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	under := &logUnderTest{Log: log}
	store, err := event.Open(log, "bare", nil)
	if err != nil {
		b.Fatal(err)
	}
	n := 0 // of all runs: streams and keys are new
	b.Run("append", func(b *testing.B) {
		for b.Loop() {
			n++
			ev := []event.Event{{Type: "Placed", Data: []byte(`{"Item":"book"}`), ContentType: "application/json"}}
			if _, err := store.Append(b.Context(), fmt.Sprint("order-", n), event.NoStream, ev); err != nil {
				b.Fatal(err)
			}
		}
	})
	trail, err := command.OpenAudit(under, "shop")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		middleware []command.Middleware
	}{
		{"bare", nil},
		{"validated", []command.Middleware{command.Recovery(), command.Validation(), command.CorrelationID(nil)}},
		{"full", []command.Middleware{
			command.Recovery(), command.Validation(), command.CorrelationID(nil),
			command.Audit(command.AuditOptions{Log: trail}), command.Idempotency(command.IdempotencyOptions{}),
		}},
	} {
		s := shopOn(b, under, c.middleware...)
		bus, err := command.Open(under, "bench", nil, c.middleware...)
		if err != nil {
			b.Fatal(err)
		}
		err = command.HandleAggregate(bus, s.orders, func(_ context.Context, o *Order, cmd place) error { return raise(o, cmd.Item) })
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				n++
				id := fmt.Sprint(c.name, n)
				if _, err := bus.Dispatch(b.Context(), place{ID: id, Item: "book", Key: id}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

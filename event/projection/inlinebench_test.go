package projection_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
)

// BenchmarkInline appends one event to a stream with a projection that changes one row, in turns
// with the same append to a store without projections. x-append is the ratio of the times; the goal
// is 1.5. x-batch is the ratio to a batch with the same two records, in which the row is written
// without a read: the part above 1 is the work of the projection and not of the log.
func BenchmarkInline(b *testing.B) {
	for _, e := range []struct {
		name string
		open func(b *testing.B) (mainstem.Log, error)
	}{
		{"memory", func(b *testing.B) (mainstem.Log, error) { return pebblelog.OpenMemory(nil) }},
		{"dir,os", func(b *testing.B) (mainstem.Log, error) {
			return pebblelog.Open(b.TempDir(), &pebblelog.Options{Durability: mainstem.OS})
		}},
		{"dir,fsync", func(b *testing.B) (mainstem.Log, error) { return pebblelog.Open(b.TempDir(), nil) }},
	} {
		for _, form := range []string{"Put", "Modify"} {
			b.Run(form+"/"+e.name, func(b *testing.B) {
				var fixtures [3]*fixture
				for i := range fixtures {
					log, err := e.open(b)
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(func() { log.Close() })
					fixtures[i] = newFixtureOn(b, log)
				}
				benchInline(b, form, fixtures[0], fixtures[1], fixtures[2])
			})
		}
	}
}

func benchInline(b *testing.B, form string, f, alone, batches *fixture) {
	handle := f.add
	if form == "Put" {
		handle = func(_ context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
			projection.Put(tx, f.totals, total{ev.Customer, ev.Cents, 1})
			return nil
		}
	}
	s := f.inline(nil, f.projection("totals", 1, handle))
	ctx := context.Background()
	const turn, streams = 256, 1000
	var names, customers [streams]string
	for i := range names {
		names[i], customers[i] = fmt.Sprint("order-", i), fmt.Sprint("customer", i)
	}
	one := make([]event.Event, 1)
	var customer string
	write := func(i int, do func(context.Context, string, event.Expected, []event.Event) (event.Appended, error), f *fixture) {
		customer = customers[i%streams]
		one[0] = f.event(customers[i%streams], i)
		if _, err := do(ctx, names[i%streams], event.AnyVersion, one); err != nil {
			b.Fatal(err)
		}
	}
	blind := func(ctx context.Context, stream string, expected event.Expected, evs []event.Event) (event.Appended, error) {
		batch := mainstem.NewBatch()
		batches.store.AppendTo(batch, stream, expected, evs)
		if err := batches.totals.UpsertTo(b.Context(), batch, total{customer, len(evs), 1}); err != nil {
			b.Fatal(err)
		}
		_, err := batches.log.Commit(ctx, batch)
		return event.Appended{}, err
	}
	var aloneTime, batchTime time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += turn {
		end := min(i+turn, b.N)
		for j := i; j < end; j++ {
			write(j, s.Append, f)
		}
		b.StopTimer()
		start := time.Now()
		for j := i; j < end; j++ {
			write(j, alone.store.Append, alone)
		}
		aloneTime += time.Since(start)
		start = time.Now()
		for j := i; j < end; j++ {
			write(j, blind, batches)
		}
		batchTime += time.Since(start)
		b.StartTimer()
	}
	b.StopTimer()
	b.ReportMetric(b.Elapsed().Seconds()/aloneTime.Seconds(), "x-append")
	b.ReportMetric(b.Elapsed().Seconds()/batchTime.Seconds(), "x-batch")
}

//go:build unix

package projection_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

// BenchmarkCatchUp lets a projection handle stored events into a read model: rows of a number of
// customers are read, changed and written. It reports events per second, and events per second of
// CPU time of the process: the rate of one core, independent of other load of the machine.
func BenchmarkCatchUp(b *testing.B) {
	for _, rows := range []int{100, 10_000, 1 << 30} { // the last: a new row for each event
		for _, batch := range []int{100, 1000} {
			b.Run(fmt.Sprintf("rows=%d/batch=%d", rows, batch), func(b *testing.B) { benchmarkCatchUp(b, rows, batch, false) })
		}
		b.Run(fmt.Sprintf("rows=%d/batch=1000/nofeed", rows), func(b *testing.B) { benchmarkCatchUp(b, rows, 1000, true) })
	}
}

func benchmarkCatchUp(b *testing.B, rows, batch int, noFeed bool) {
	log, err := pebblelog.Open(b.TempDir(), &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	store, err := event.Open(log, "shop", nil)
	if err != nil {
		b.Fatal(err)
	}
	types := event.NewTypes(nil)
	if err := event.Register[paid](types, "Paid"); err != nil {
		b.Fatal(err)
	}
	last := fill(b, store, types, b.N, rows)
	totals, err := readmodel.Open(log, "shop/totals", &readmodel.Options[total]{Key: func(t total) string { return t.Customer }, NoFeed: noFeed})
	if err != nil {
		b.Fatal(err)
	}
	p, err := projection.New("totals", 1, event.Filter{}, projection.On(func(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
		return projection.Modify(ctx, tx, totals, ev.Customer, func(old total, _ bool) (total, error) {
			return total{ev.Customer, old.Cents + ev.Cents, old.Count + 1}, nil
		})
	}))
	if err != nil {
		b.Fatal(err)
	}
	e, err := projection.Open(store, types, &projection.Options{Logger: discard})
	if err != nil {
		b.Fatal(err)
	}
	if err := e.Register(p, &projection.Async{MaxBatch: batch}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	if err := e.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := e.WaitFor(b.Context(), "totals", last); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.N)/(cpu(b)-before).Seconds(), "events/core-s")
	if err := e.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// cpu returns the CPU time of the process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fill appends n events to a hundred streams, and returns the last position.
func fill(b *testing.B, store *event.Store, types *event.Types, n, rows int) (last mainstem.Position) {
	for done := 0; done < n; {
		var evs []event.Event
		for ; len(evs) < 500 && done < n; done++ {
			ev, err := types.Encode(paid{fmt.Sprint("customer", done%rows), done})
			if err != nil {
				b.Fatal(err)
			}
			evs = append(evs, ev)
		}
		a, err := store.Append(b.Context(), fmt.Sprint("order-", done/500%100), event.AnyVersion, evs)
		if err != nil {
			b.Fatal(err)
		}
		last = a.LastPosition
	}
	return last
}

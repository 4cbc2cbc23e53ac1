package projectionprom_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/projection/projectionprom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type paid struct{ Cents int }

// begin runs a projection, over n events, that fails at 13 cents and parks what it fails at.
func begin(n int) (engine *projection.Engine, end func(), err error) {
	ctx := context.Background()
	log := model.New(nil)
	store, err := event.Open(log, "shop", nil)
	types := event.NewTypes(nil)
	err = errors.Join(err, event.Register[paid](types, "Paid"))
	for i := range n {
		ev, _ := types.Encode(paid{13 + i})
		_, aerr := store.Append(ctx, fmt.Sprint("order-", i), event.NoStream, []event.Event{ev})
		err = errors.Join(err, aerr)
	}
	p, perr := projection.New("totals", 1, event.Filter{}, projection.On(func(_ context.Context, _ *projection.Tx, ev paid, _ event.Recorded) error {
		if ev.Cents == 13 {
			return errors.New("unlucky")
		}
		return nil
	}))
	engine, oerr := projection.Open(store, types, &projection.Options{Logger: slog.New(slog.DiscardHandler)})
	err = errors.Join(err, perr, oerr, engine.Register(p, &projection.Async{Attempts: 1, OnPoison: event.ParkPoison}), engine.Start(ctx))
	if err == nil {
		head, _ := log.Head(ctx)
		err = engine.WaitFor(ctx, "totals", head)
	}
	return engine, func() { _ = engine.Stop(ctx); _ = log.Close() }, err
}

func ExampleNew() {
	engine, end, err := begin(1)
	defer end()
	registry := prometheus.NewRegistry()
	registry.MustRegister(projectionprom.New(engine, nil))
	families, gerr := registry.Gather()
	for _, f := range families {
		fmt.Println(f.GetName())
	}
	fmt.Println(err, gerr)
	// Output:
	// mainstem_projection_behind
	// mainstem_projection_dropped_total
	// mainstem_projection_faults_total
	// mainstem_projection_handled_total
	// mainstem_projection_lag
	// mainstem_projection_parked
	// mainstem_projection_position
	// mainstem_projection_seconds_total
	// mainstem_projection_state
	// <nil> <nil>
}

// gather returns the numbers of the metrics without the prefix; of states, which one it is.
func gather(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "mainstem_projection_")
			for _, l := range m.GetLabel() {
				if l.GetName() == "state" {
					name += " " + l.GetValue()
				}
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}

func TestCollector(t *testing.T) {
	engine, end, err := begin(10)
	if err != nil {
		t.Fatal(err)
	}
	c := projectionprom.New(engine, &projectionprom.Options{Timeout: time.Minute})
	got := gather(t, c)
	if got["handled_total"] != 9 || got["lag"] != 0 || got["behind"] != 0 || got["parked"] != 1 || got["position"] == 0 || got["seconds_total"] <= 0 {
		t.Errorf("%v", got)
	}
	if err := engine.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := gather(t, c); got["state stopped"] != 1 {
		t.Errorf("stopped: %v", got)
	}
	end()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	if _, err := registry.Gather(); err == nil {
		t.Error("a scrape of a log that is closed has no error")
	}
}

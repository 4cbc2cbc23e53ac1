package sagaprom_test

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

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/saga"
	"github.com/mainstemdev/mainstem/event/saga/sagaprom"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type placed struct{ Cents int }

type charge struct{ Cents int }

func (charge) CommandType() string { return "Charge" }

// begin runs sagas that send a command each, over n events of 1, 2, 3 … cents: one cent is refused, two cents find a
// bank that is closed, and what is more is charged.
func begin(n int) (engine *saga.Engine, end func(), err error) {
	ctx := context.Background()
	log := model.New(nil)
	store, err := event.Open(log, "shop", nil)
	types := event.NewTypes(nil)
	bus, berr := command.Open(log, "shop", nil)
	err = errors.Join(err, berr, event.Register[placed](types, "Placed"), command.Handle(bus, func(_ context.Context, c charge) (r command.Result, err error) {
		switch c.Cents {
		case 1:
			err = errors.New("too little")
		case 2:
			err = mainstem.Errorf(mainstem.KindUnavailable, "charge", "the bank is closed")
		}
		return r, err
	}))
	for i := range n {
		ev, _ := types.Encode(placed{1 + i})
		_, aerr := store.Append(ctx, fmt.Sprint("order-", i), event.NoStream, []event.Event{ev})
		err = errors.Join(err, aerr)
	}
	def, derr := saga.New[struct{}]("payment", saga.Sends[charge](), saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[struct{}], ev placed) error {
		c.Dispatch(charge(ev))
		return nil
	}))
	engine, oerr := saga.Open(store, types, bus, &saga.Options{Logger: slog.New(slog.DiscardHandler)})
	err = errors.Join(err, derr, oerr, engine.Register(def, nil), engine.Start(ctx))
	if err == nil {
		head, _ := log.Head(ctx)
		err = engine.WaitFor(ctx, "payment", head)
	}
	return engine, func() { _ = engine.Stop(ctx); _ = log.Close() }, err
}

func ExampleNew() {
	engine, end, err := begin(0)
	defer end()
	registry := prometheus.NewRegistry()
	registry.MustRegister(sagaprom.New(engine, nil))
	families, gerr := registry.Gather()
	for _, f := range families {
		fmt.Println(f.GetName())
	}
	fmt.Println(err, gerr)
	// Output:
	// mainstem_saga_commands_total
	// mainstem_saga_commands_waiting
	// mainstem_saga_early_total
	// mainstem_saga_failures_total
	// mainstem_saga_faulted
	// mainstem_saga_handled_total
	// mainstem_saga_ignored_total
	// mainstem_saga_instances
	// mainstem_saga_lag
	// mainstem_saga_oldest_waiting_seconds
	// mainstem_saga_parked
	// mainstem_saga_paused
	// mainstem_saga_position
	// mainstem_saga_refused_total
	// mainstem_saga_removed_total
	// mainstem_saga_running
	// mainstem_saga_timeouts_pending
	// mainstem_saga_timeouts_total
	// <nil> <nil>
}

// gather returns the numbers of the metrics without the prefix, those of instances by status.
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
			name := strings.TrimPrefix(f.GetName(), "mainstem_saga_")
			for _, l := range m.GetLabel() {
				if l.GetName() == "status" {
					name += " " + l.GetValue()
				}
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}

func TestCollector(t *testing.T) {
	engine, end, err := begin(5)
	defer end()
	if err != nil {
		t.Fatal(err)
	}
	c := sagaprom.New(engine, &sagaprom.Options{Timeout: time.Minute})
	var got map[string]float64
	testkit.Eventually(t, "all to be tried", func() bool {
		got = gather(t, c)
		return got["refused_total"] == 1 && got["commands_total"] == 3 && got["failures_total"] > 0 && got["handled_total"] == 5
	})
	for name, want := range map[string]float64{
		"handled_total": 5, "lag": 0, "paused": 0, "running": 4, "instances started": 4, "instances failed": 1, "instances completed": 0,
		"commands_waiting": 1, "timeouts_pending": 0, "faulted": 0,
	} {
		if n, is := got[name]; !is || n != want {
			t.Errorf("%s is %v, want %v", name, n, want)
		}
	}
	if got["position"] == 0 || got["oldest_waiting_seconds"] <= 0 {
		t.Errorf("%v", got)
	}
	if err := engine.Pause(t.Context(), "payment"); err != nil {
		t.Fatal(err)
	}
	if got := gather(t, c); got["paused"] != 1 {
		t.Errorf("paused: %v", got)
	}
	end()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	if _, err := registry.Gather(); err == nil {
		t.Error("a scrape of a log that is closed has no error")
	}
}

package commandprom_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/command/commandprom"
)

type do struct {
	command.Base
	Err error
}

func (do) CommandType() string { return "Do" }

func TestMetrics(t *testing.T) {
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m := commandprom.New(&commandprom.Options{Buckets: []float64{1000}})
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	bus, err := command.Open(log, "test", nil, m.Middleware(), command.Idempotency(command.IdempotencyOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	err = command.Handle(bus, func(_ context.Context, cmd do) (command.Result, error) {
		if cmd.CommandID == "panic" {
			panic("as asked")
		}
		return command.Result{}, cmd.Err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []do{
		{}, {Base: command.Base{CommandID: "1"}}, {Base: command.Base{CommandID: "1"}}, {Err: errors.New("no")},
		{Err: command.Invalid("f", "wrong")}, {Err: mainstem.ErrConflict}, {Err: mainstem.ErrUnavailable}, {Err: context.Canceled},
	} {
		_, _ = bus.Dispatch(t.Context(), cmd)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = bus.Dispatch(t.Context(), do{Base: command.Base{CommandID: "panic"}})
	}()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			name := f.GetName()
			for _, l := range metric.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	const handled = "mainstem_command_handled_total "
	want := map[string]float64{
		handled + "canceled Do": 1, handled + "conflict Do": 1, handled + "duplicate Do": 1, handled + "failed Do": 2,
		handled + "invalid Do": 1, handled + "ok Do": 2, handled + "unavailable Do": 1,
		"mainstem_command_running": 0, "mainstem_command_seconds Do": 9,
	}
	if !maps.Equal(got, want) {
		t.Errorf("the metrics are %v, want %v", got, want)
	}
}

// Package projectionprom provides Prometheus metrics of the projections of an engine.
//
//	engine, err := projection.Open(store, types, nil)
//	registry.MustRegister(projectionprom.New(engine, nil))
//
// Each scrape calls [projection.Engine.Statuses]; nothing is counted in between.
//
// # Metrics
//
// All have the label projection:
//
//	mainstem_projection_position       everything up to this position is handled
//	mainstem_projection_behind         positions from there to the newest record of the store
//	mainstem_projection_lag            events to be handled, counted up to [projection.MaxLag]
//	mainstem_projection_parked         parked events, counted up to the same limit
//	mainstem_projection_handled_total  events that this process has handled
//	mainstem_projection_seconds_total  time of the handlers of this process
//	mainstem_projection_faults_total   failures in this process
//	mainstem_projection_dropped_total  events that a live projection has left out in this process
//	mainstem_projection_state{state}   1 for the state in this process
//
// position, behind, lag and parked are the same in all processes.
//
// # Concurrency
//
// A Collector is safe for concurrent use. A scrape reads the events that are to be handled, to
// count them; [Options.Timeout] bounds it.
//
//snippet:import "github.com/prometheus/client_golang/prometheus"
//snippet:var registry *prometheus.Registry
//snippet:var store *event.Store
//snippet:var types *event.Types
package projectionprom

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem/event/projection"
)

// Options configure a [Collector]; nil and zero fields mean the defaults.
type Options struct {
	// Timeout bounds one scrape; a scrape that takes longer fails. Default 5 s.
	Timeout time.Duration
}

// Collector is a [prometheus.Collector].
type Collector struct {
	engine  *projection.Engine
	timeout time.Duration
}

// New returns a collector of the projections of an engine. It has no goroutines and need not be
// closed.
func New(engine *projection.Engine, o *Options) *Collector {
	c := &Collector{engine: engine, timeout: 5 * time.Second}
	if o != nil && o.Timeout > 0 {
		c.timeout = o.Timeout
	}
	return c
}

// metric is a metric whose value is a number of a status.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*projection.Status) float64
}

const prefix = "mainstem_projection_"

func number(name, help string, kind prometheus.ValueType, value func(*projection.Status) float64) metric {
	return metric{prometheus.NewDesc(prefix+name, help, []string{"projection"}, nil), kind, value}
}

var metrics = []metric{
	number("position", "Everything up to it is handled.", prometheus.GaugeValue, func(s *projection.Status) float64 { return float64(s.Position) }),
	number("behind", "Positions from there to the newest record of the store.", prometheus.GaugeValue, func(s *projection.Status) float64 { return float64(s.Behind) }),
	number("lag", "Events that are to be handled, counted up to a limit.", prometheus.GaugeValue, func(s *projection.Status) float64 { return float64(s.Lag) }),
	number("parked", "Events that were put aside.", prometheus.GaugeValue, func(s *projection.Status) float64 { return float64(s.Parked) }),
	number("handled_total", "Events that this process has handled.", prometheus.CounterValue, func(s *projection.Status) float64 { return float64(s.Handled) }),
	number("seconds_total", "How long the handlers of this process took.", prometheus.CounterValue, func(s *projection.Status) float64 { return s.Busy.Seconds() }),
	number("faults_total", "How often it has failed in this process.", prometheus.CounterValue, func(s *projection.Status) float64 { return float64(s.Faults) }),
	number("dropped_total", "Events that a live projection has left out in this process.", prometheus.CounterValue, func(s *projection.Status) float64 { return float64(s.Dropped) }),
}

var stateDesc = prometheus.NewDesc(prefix+"state", "1 for the state that the projection is in, in this process.", []string{"projection", "state"}, nil)

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
	out <- stateDesc
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	all, err := c.engine.Statuses(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(stateDesc, err)
		return
	}
	for i := range all {
		s := &all[i]
		for _, m := range metrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(s), s.Name)
		}
		out <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, 1, s.Name, s.State.String())
	}
}

// Package sagaprom exports the numbers of an engine's sagas to Prometheus.
//
//	sagas, err := saga.Open(store, types, bus, nil)
//	registry.MustRegister(sagaprom.New(sagas, nil))
//
// Each scrape calls [saga.Engine.Stats], and [saga.Records.Overview] for each type that the engine
// runs. Nothing is counted between scrapes. All metrics have the prefix mainstem_saga_ and the label
// saga, the type.
//
// Gauges from the log, which are the same in all processes. Each is counted up to [saga.MaxCount]:
//
//	instances               sagas, with the label status
//	running                 sagas that have not ended
//	paused                  1 or 0
//	position                all events up to it are handled
//	lag                     events that are not handled yet
//	parked                  parked events
//	commands_waiting        messages in the inbox
//	timeouts_pending        pending timeouts
//	oldest_waiting_seconds  age of the oldest waiting message or overdue timeout; 0 if there is none
//
// Of this process, counters except the last; see [saga.Stats]:
//
//	handled_total, ignored_total, early_total  events
//	commands_total, refused_total              commands
//	timeouts_total                             timeouts that were handled
//	failures_total                             failed attempts of steps and commands
//	removed_total                              sagas that were removed
//	faulted                                    1 while the subscription has failed
//
// # Concurrency
//
// A Collector may be used by many goroutines. A scrape reads every row that it counts: give it enough
// time, with [Options].
//
//snippet:import "github.com/prometheus/client_golang/prometheus"
//snippet:var registry *prometheus.Registry
//snippet:var store *event.Store
//snippet:var types *event.Types
//snippet:var bus *command.Bus
package sagaprom

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/saga"
)

// Options configure a [Collector]; nil and zero fields mean the defaults.
type Options struct {
	// Timeout is the longest time for reading the log in one scrape; after it, the scrape fails.
	// Default 5 s.
	Timeout time.Duration
}

// Collector is a [prometheus.Collector].
type Collector struct {
	engine  *saga.Engine
	timeout time.Duration
}

// New returns a collector for the types of an engine. It has no goroutines and needs no Close.
func New(engine *saga.Engine, o *Options) *Collector {
	c := &Collector{engine: engine, timeout: 5 * time.Second}
	if o != nil && o.Timeout > 0 {
		c.timeout = o.Timeout
	}
	return c
}

const prefix = "mainstem_saga_"

// metric is a number of an S, such as [saga.Stats].
type metric[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*S) float64
}

func number[S any](name, help string, kind prometheus.ValueType, value func(*S) float64) metric[S] {
	return metric[S]{prometheus.NewDesc(prefix+name, help, []string{"saga"}, nil), kind, value}
}

func counter(name, help string, value func(*saga.Stats) uint64) metric[saga.Stats] {
	return number(name, help, prometheus.CounterValue, func(s *saga.Stats) float64 { return float64(value(s)) })
}

func gauge(name, help string, value func(*saga.Overview) uint64) metric[saga.Overview] {
	return number(name, help, prometheus.GaugeValue, func(o *saga.Overview) float64 { return float64(value(o)) })
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

var instances = prometheus.NewDesc(prefix+"instances", "Sagas by status, counted up to a limit.", []string{"saga", "status"}, nil)

// ofLog are the metrics that are the same in all processes.
var ofLog = []metric[saga.Overview]{
	gauge("running", "Sagas that have not ended.", (*saga.Overview).Running),
	gauge("paused", "1 while the type is paused.", func(o *saga.Overview) uint64 { return flag(!o.Paused.IsZero()) }),
	gauge("position", "Every event up to it is handled.", func(o *saga.Overview) uint64 { return uint64(o.Position) }),
	gauge("lag", "Events that are to be handled, counted up to a limit.", func(o *saga.Overview) uint64 { return o.Lag }),
	gauge("parked", "Events that were put aside.", func(o *saga.Overview) uint64 { return o.Parked }),
	gauge("commands_waiting", "Commands that wait to be carried out.", func(o *saga.Overview) uint64 { return o.Commands }),
	gauge("timeouts_pending", "Timeouts that are pending.", func(o *saga.Overview) uint64 { return o.Timeouts }),
	number("oldest_waiting_seconds", "How long the oldest waits of the commands and of the timeouts that are due; 0 if none does.", prometheus.GaugeValue,
		func(o *saga.Overview) float64 {
			if o.Waiting.IsZero() {
				return 0
			}
			return max(time.Since(o.Waiting).Seconds(), 0)
		}),
}

// ofProcess are the metrics of this process.
var ofProcess = []metric[saga.Stats]{
	counter("handled_total", "Events that this process has handled.", func(s *saga.Stats) uint64 { return s.Handled }),
	counter("ignored_total", "Events for sagas that had ended.", func(s *saga.Stats) uint64 { return s.Ignored }),
	counter("early_total", "Events for sagas that had not been started.", func(s *saga.Stats) uint64 { return s.Early }),
	counter("commands_total", "Commands that this process has carried out.", func(s *saga.Stats) uint64 { return s.Commands }),
	counter("refused_total", "Commands that were refused.", func(s *saga.Stats) uint64 { return s.Refused }),
	counter("timeouts_total", "Timeouts that this process has handled.", func(s *saga.Stats) uint64 { return s.Timeouts }),
	counter("failures_total", "Steps and commands that failed and are tried again.", func(s *saga.Stats) uint64 { return s.Failures }),
	counter("removed_total", "Sagas that had ended and were removed by this process.", func(s *saga.Stats) uint64 { return s.Removed }),
	number("faulted", "1 while this process cannot follow the events.", prometheus.GaugeValue, func(s *saga.Stats) float64 { return float64(flag(s.Err != nil)) }),
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	out <- instances
	for _, m := range ofLog {
		out <- m.desc
	}
	for _, m := range ofProcess {
		out <- m.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	for _, s := range c.engine.Stats() {
		for _, m := range ofProcess {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s), s.Saga)
		}
		o, err := c.engine.Overview(ctx, s.Saga)
		if errors.Is(err, mainstem.ErrNotFound) { // no engine has started the type yet
			continue
		}
		if err != nil {
			out <- prometheus.NewInvalidMetric(instances, err)
			return
		}
		for _, m := range ofLog {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&o), s.Saga)
		}
		for status, n := range o.Count {
			out <- prometheus.MustNewConstMetric(instances, prometheus.GaugeValue, float64(n), s.Saga, string(status))
		}
	}
}

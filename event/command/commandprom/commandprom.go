// Package commandprom provides Prometheus metrics of the commands of a bus.
//
//	metrics := commandprom.New(nil)
//	registry.MustRegister(metrics)
//	bus, err := command.Open(log, "shop", nil, metrics.Middleware(), command.Validation())
//
// # Metrics
//
//	mainstem_command_handled_total{type,outcome}  commands that have ended; outcome is ok, duplicate,
//	                                              invalid, conflict, unavailable, canceled or failed
//	mainstem_command_seconds{type}                histogram of their durations, the commit included
//	mainstem_command_running                      commands under way
//
// # Concurrency
//
// Metrics are safe for concurrent use.
//
//snippet:import "github.com/prometheus/client_golang/prometheus"
//snippet:var registry *prometheus.Registry
//snippet:var log mainstem.Log
package commandprom

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/command"
)

// Options configure [Metrics]; nil means the defaults.
type Options struct {
	// Buckets are the upper bounds of the histogram in seconds, ascending. Default
	// prometheus.ExponentialBuckets(0.0001, 4, 10): 100 µs to 26 s.
	Buckets []float64
}

// Metrics is a [prometheus.Collector], and provides the middleware that feeds it.
type Metrics struct {
	handled *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	running prometheus.Gauge
}

// New returns metrics without any command. Register them once.
func New(o *Options) *Metrics {
	buckets := prometheus.ExponentialBuckets(0.0001, 4, 10)
	if o != nil && o.Buckets != nil {
		buckets = o.Buckets
	}
	return &Metrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mainstem_command_handled_total", Help: "Commands that have ended, by type and outcome.",
		}, []string{"type", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mainstem_command_seconds", Help: "How long commands took, the commit included, by type.", Buckets: buckets,
		}, []string{"type"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstem_command_running", Help: "Commands under way."}),
	}
}

// Middleware returns the middleware that counts and times commands. Place it first, so that its
// times include the rest of the middleware. A panic counts as failed.
func (m *Metrics) Middleware() command.Middleware {
	return func(next command.Handler) command.Handler {
		return func(ctx context.Context, cmd command.Command) (r command.Result, err error) {
			name, began, returned := cmd.CommandType(), time.Now(), false
			m.running.Inc()
			defer func() { // also when it panics
				m.running.Dec()
				m.seconds.WithLabelValues(name).Observe(time.Since(began).Seconds())
				m.handled.WithLabelValues(name, outcome(r, err, returned)).Inc()
			}()
			r, err = next(ctx, cmd)
			returned = true
			return r, err
		}
	}
}

// outcome returns the label value for the end of a command; returned is false if it panicked.
func outcome(r command.Result, err error, returned bool) string {
	switch {
	case !returned:
		return "failed"
	case err == nil && r.Duplicate:
		return "duplicate"
	case err == nil:
		return "ok"
	case errors.Is(err, mainstem.ErrInvalid):
		return "invalid"
	case errors.Is(err, mainstem.ErrConflict):
		return "conflict"
	case errors.Is(err, mainstem.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, mainstem.ErrCanceled), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "canceled"
	}
	return "failed"
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	m.handled.Describe(c)
	m.seconds.Describe(c)
	m.running.Describe(c)
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	m.handled.Collect(c)
	m.seconds.Collect(c)
	m.running.Collect(c)
}

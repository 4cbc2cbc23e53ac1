// Package viewserver serves the views of a server's log as JSON, on the HTTP listener of the
// server below /v1/, as a component of package server. Package viewhttp says how.
//
//	v := viewserver.New()
//	c := server.DefaultConfig()
//	c.Components = append(c.Components, v)
//	s, err := server.Open(ctx, c)
//
// It asks for the token of the server, as the other handlers of the listener do. Stop of the
// server ends its followers, which connect again where they left. The component starts before
// the listener and has no goroutines of its own.
package viewserver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem/server"
	viewhttp "github.com/mainstemdev/mainstem/wire/http"
)

// Config is what can be set. Its fields are settings of a server, see [server.Setting].
type Config struct {
	On           bool          `name:"views" help:"serve tables, events, topics and commits as JSON below /v1/ of the HTTP listener"`
	MaxStreams   int           `name:"views-max-streams" help:"most followers of the views, and lists without an end, at one time" default:"1024"`
	WriteTimeout time.Duration `name:"views-write-timeout" help:"how long a client of the views may take nothing of an answer" default:"30s" least:"1s"`
}

// Component is the views of a server. It belongs to one server; its methods may be called from
// many goroutines.
type Component struct {
	// Config must not change after the server was opened.
	Config Config
	// Alerts returns the alert tables of the server, nil if it has none. It is called for each
	// request that needs them. Nil: there never are. It must not change after the server was
	// opened.
	Alerts func() viewhttp.Alerts

	handler *viewhttp.Handler // nil before Start, and if the views are off
}

var _ server.Configured = (*Component)(nil)

// New returns a component that serves the views.
func New() *Component { return &Component{Config: Config{On: true}} }

// Name implements [server.Component].
func (v *Component) Name() string { return "views" }

// Settings implements [server.Configured].
func (v *Component) Settings() any { return &v.Config }

// Check implements [server.Configured].
func (v *Component) Check(*server.Config) error {
	if v.Config.MaxStreams < 0 {
		return fmt.Errorf("views-max-streams is %d: want more than 0", v.Config.MaxStreams)
	}
	return nil
}

// Start adds the views to what the HTTP listener will serve.
func (v *Component) Start(_ context.Context, h *server.Host) error {
	if !v.Config.On {
		return nil
	}
	m := newMetrics()
	h.Metrics.MustRegister(m.requests, m.seconds)
	v.handler = viewhttp.New(h.Log, h.Topics, &viewhttp.Options{
		Principal: principal(h), Limits: h.Limits, MaxStreams: v.Config.MaxStreams, Memory: h.Memory,
		BodyTimeout: h.BodyTimeout, WriteTimeout: v.Config.WriteTimeout,
		Alerts: v.Alerts, Observe: m.observe, Logger: h.Logger,
	})
	h.Mount("/v1/", v.handler, v.handler.Close)
	return nil
}

// Stop ends what is left of the requests; the listener has ended before.
func (v *Component) Stop(context.Context) error {
	if v.handler == nil {
		return nil
	}
	return v.handler.Close()
}

// principal returns who sent a request. A server has one token or none, so there is one name.
func principal(h *server.Host) func(*http.Request) (string, bool) {
	return func(r *http.Request) (string, bool) { return "", h.Token == "" || h.CarriesToken(r) }
}

// metrics count requests by their route.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mainstem_views_requests_total", Help: "Requests to the views by route and status."}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mainstem_views_request_seconds", Help: "How long requests to the views took by route; followers take as long as they follow.", Buckets: server.SecondsBuckets(),
		}, []string{"route"}),
	}
}

func (m *metrics) observe(route string, status int, took time.Duration) {
	if route == "" {
		route = "unknown" // any text may stand in a URL: it must not become a label
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

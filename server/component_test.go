package server_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/server"
)

// planned is a component that does what a test plans, and notes when.
type planned struct {
	name  string
	notes *[]string
	start func(h *server.Host) error
	stop  func()
	out   atomic.Bool // it is not ready
}

func (p *planned) Name() string { return p.name }

func (p *planned) Start(_ context.Context, h *server.Host) error {
	*p.notes = append(*p.notes, "start "+p.name)
	if p.start != nil {
		return p.start(h)
	}
	return nil
}

func (p *planned) Stop(context.Context) error {
	*p.notes = append(*p.notes, "stop "+p.name)
	if p.stop != nil {
		p.stop()
	}
	return nil
}

func (p *planned) Ready(context.Context) error {
	if p.out.Load() {
		return errors.New("the tables are out")
	}
	return nil
}

// intake is a planned component that takes in what others send.
type intake struct{ *planned }

func (intake) Intake() {}

// TestOrderOfComponents: what takes in starts when the HTTP listener serves, wherever it stands
// in the list, and stops while it still does.
func TestOrderOfComponents(t *testing.T) {
	var notes []string
	var n *server.Server
	serves := func() bool {
		conn, err := net.Dial("tcp", n.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	way := &planned{name: "way in", notes: &notes, start: func(*server.Host) error {
		if n.Addr() == nil || !serves() {
			t.Error("a way in starts before the HTTP listener")
		}
		return nil
	}, stop: func() {
		if !serves() {
			t.Error("a way in stops after the HTTP listener")
		}
	}}
	first := &planned{name: "first", notes: &notes, start: func(*server.Host) error {
		if n.Addr() != nil {
			t.Error("a component starts after the HTTP listener")
		}
		return nil
	}, stop: func() {
		if serves() {
			t.Error("a component stops before the HTTP listener")
		}
	}}
	second := &planned{name: "second", notes: &notes}
	n, err := server.Open(t.Context(), servertest.Config(intake{way}, first, second))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Error(err)
	}
	if err := n.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if want := []string{"start first", "start second", "start way in", "stop way in", "stop second", "stop first"}; !slices.Equal(notes, want) {
		t.Errorf("%q, want %q", notes, want)
	}
}

// TestHandleOfAComponent: what it shows needs the token of the server, and a second Start after
// one that failed may show it, and register its metrics, again.
func TestHandleOfAComponent(t *testing.T) {
	var notes []string
	shown := &planned{name: "shown", notes: &notes, start: func(h *server.Host) error {
		h.Metrics.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstem_shown", Help: "A test."}))
		h.Handle("GET /shown", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("here")) }))
		return nil
	}}
	fault := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "start the fault"}
	fails := true
	second := &planned{name: "second", notes: &notes, start: func(h *server.Host) error {
		h.Metrics.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstem_second", Help: "A test."}))
		if fails {
			return fault
		}
		return nil
	}}
	c := servertest.Config(shown, second)
	c.Token = "open-sesame"
	n := servertest.Open(t, c)
	if err := n.Start(t.Context()); !errors.Is(err, fault) {
		t.Errorf("a component that fails: %v", err)
	}
	fails = false
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"start shown", "start second", "stop shown", "start shown", "start second"}; !slices.Equal(notes, want) {
		t.Errorf("%q, want %q", notes, want)
	}
	if code, _ := servertest.Get(t, nil, n.URL()+"/shown"); code != http.StatusUnauthorized {
		t.Errorf("without the token: %d", code)
	}
	if code, text := servertest.Get(t, http.Header{"Authorization": {"Bearer open-sesame"}}, n.URL()+"/shown"); code != http.StatusOK || text != "here" {
		t.Errorf("with the token: %d %q", code, text)
	}
	if _, text := servertest.Get(t, http.Header{"Authorization": {"Bearer open-sesame"}}, n.URL()+"/metrics"); !strings.Contains(text, "\nmainstem_shown 0") {
		t.Error("/metrics has nothing of the component")
	}
}

func TestReadyAsksTheComponents(t *testing.T) {
	var notes []string
	p := &planned{name: "tables", notes: &notes}
	n := start(t, func(c *server.Config) { c.Components = []server.Component{p} })
	if code, text := servertest.Get(t, nil, n.URL()+"/readyz"); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	p.out.Store(true)
	if code, text := servertest.Get(t, nil, n.URL()+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "the tables are out") {
		t.Errorf("%d %s", code, text)
	}
}

// failing is a collector that cannot read what it measures.
type failing struct{ desc *prometheus.Desc }

func (f failing) Describe(ch chan<- *prometheus.Desc) { ch <- f.desc }

func (f failing) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(f.desc, errors.New("it cannot be read"))
}

// TestMetricsOfOthers: a collector that fails is left out of /metrics and counted.
func TestMetricsOfOthers(t *testing.T) {
	var notes []string
	c := &planned{name: "failing", notes: &notes, start: func(h *server.Host) error {
		h.Metrics.MustRegister(failing{prometheus.NewDesc("mainstem_failing", "A test.", nil, nil)})
		return nil
	}}
	n := servertest.Start(t, servertest.Config(c))
	servertest.Metrics(t, n.URL())
	servertest.AwaitMetrics(t, n.URL(), "mainstem_spaces ", `promhttp_metric_handler_errors_total{cause="gathering"} `)
	if text := servertest.Metrics(t, n.URL()); strings.Contains(text, "\nmainstem_failing") {
		t.Errorf("it has the metric that failed: %s", text)
	}
}

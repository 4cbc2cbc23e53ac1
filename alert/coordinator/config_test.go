package coordinator

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
)

func TestParseConfig(t *testing.T) {
	c, err := ParseConfig([]byte(`
log_level: ERROR
http_server:
  listen: ":5000"
  timeout: 5s
omnibus:
  clusters:
    AGG1: [h1:8080, https://h2:8443]
  connection_label: me
  max_connections: 7
  random_fail_over: true
  fail_back: false
  fail_back_delay: 300s
`))
	if err != nil {
		t.Fatal(err)
	}
	d := c.withDefaults()
	if d.HTTP.Listen != ":5000" || d.HTTP.IdleTimeout != time.Minute || d.OMNIbus.MaxConnections != 7 || *d.OMNIbus.FailBack || d.OMNIbus.FailBackDelay != 5*time.Minute || d.OMNIbus.QueryTimeout != DefaultQueryTimeout || len(d.OMNIbus.Clusters["AGG1"]) != 2 {
		t.Errorf("%+v", d)
	}
}

func TestParseConfigRefuses(t *testing.T) {
	good := "omnibus: {clusters: {A: [h:1]}"
	for text, want := range map[string]string{
		good + ", max_conections: 5}":           "max_conections",
		good + "}\nlisten: x":                   "listen",
		"":                                      "clusters is empty",
		"omnibus: {clusters: {A: []}}":          "no servers",
		"omnibus: {clusters: {A: [h:1, h:1]}}":  "each once",
		"omnibus: {clusters: {'*': [h:1]}}":     "letters",
		good + ", max_connections: 1001}":       "at most 1000",
		good + ", max_connections: -1}":         "negative",
		good + ", query_timeout: -1s}":          "omnibus.query_timeout",
		good + ", query_timeout: soon}":         "soon",
		good + "}\n---\nomnibus: {}":            "behind its end",
		good + "}\nlog_level: LOUD":             "LOUD",
		good + ", connection_label: \"a\\nb\"}": "line end",
	} {
		_, err := ParseConfig([]byte(text))
		if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, servers := range []string{"ftp://x", "http://u:p@x", "http://x/?y"} {
		if _, err := Open(quick(map[string][]string{"A": {servers}}), nil); !errors.Is(err, mainstem.ErrInvalid) {
			t.Error(servers, err)
		}
	}
	if _, err := Open(nil, nil); !errors.Is(err, mainstem.ErrInvalid) {
		t.Error(err)
	}
	if _, err := NewServerBackend(nil, nil); !errors.Is(err, mainstem.ErrInvalid) {
		t.Error(err)
	}
}

func TestCollectors(t *testing.T) {
	f, first, _ := pair(t, nil)
	f.sql("select 1")
	first.set(func() { first.down = refusing })
	f.as("new", "p", "select 1")
	f.get("/nothing", 404)
	r := prometheus.NewRegistry()
	r.MustRegister(f.c.Collectors()...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), namespace+"_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"queries_total AGG OK": 2, "rows_total AGG": 2, "events_total AGG failover": 1, "requests_total /rawSQL 200": 2, "requests_total other 404": 1,
		"query_seconds AGG": 2, "connections AGG idle": 1, "connections AGG busy": 0, "current_server AGG": 1, "server_open AGG second": 0,
	} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

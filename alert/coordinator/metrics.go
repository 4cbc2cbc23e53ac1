package coordinator

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "mainstem_alert_coordinator"

// metrics are what the coordinator counts.
type metrics struct {
	requests *prometheus.CounterVec   // path, status
	queries  *prometheus.CounterVec   // cluster, code
	seconds  *prometheus.HistogramVec // cluster
	rows     *prometheus.CounterVec   // cluster
	events   *prometheus.CounterVec   // cluster, event
}

// clusterMetrics are those of one cluster.
type clusterMetrics struct {
	ok, rows                              prometheus.Counter
	failovers, failbacks, opened, retries prometheus.Counter
	seconds                               prometheus.Observer
	failed                                func(Code) prometheus.Counter
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	return &metrics{
		requests: counter("requests_total", "Requests that were answered.", "path", "status"),
		queries:  counter("queries_total", "Statements sent to clusters, by how they ended.", "cluster", "code"),
		rows:     counter("rows_total", "Rows that clusters answered with.", "cluster"),
		events:   counter("events_total", "Fail-overs, fail-backs, breakers that opened, and statements that were sent again.", "cluster", "event"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "query_seconds", Help: "How long clusters took to answer.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}, []string{"cluster"}),
	}
}

func (m *metrics) of(cluster string) *clusterMetrics {
	event := func(name string) prometheus.Counter { return m.events.WithLabelValues(cluster, name) }
	return &clusterMetrics{
		ok: m.queries.WithLabelValues(cluster, "OK"), rows: m.rows.WithLabelValues(cluster), seconds: m.seconds.WithLabelValues(cluster),
		failovers: event("failover"), failbacks: event("failback"), opened: event("breaker"), retries: event("retry"),
		failed: func(c Code) prometheus.Counter { return m.queries.WithLabelValues(cluster, string(c)) },
	}
}

// observe notes how a statement ended.
func (m *clusterMetrics) observe(took time.Duration, rows int, code Code) {
	m.seconds.Observe(took.Seconds())
	m.rows.Add(float64(rows))
	if code == "" {
		m.ok.Inc()
		return
	}
	m.failed(code).Inc()
}

// state collects the connections and servers of clusters when it is asked.
type state struct{ c *Coordinator }

var (
	connections = prometheus.NewDesc(namespace+"_connections", "Connections to a cluster, and requests that wait for one.", []string{"cluster", "state"}, nil)
	currents    = prometheus.NewDesc(namespace+"_current_server", "Which server of a cluster is asked: 0 is the first.", []string{"cluster"}, nil)
	breakers    = prometheus.NewDesc(namespace+"_server_open", "1 if a server is left alone after failures.", []string{"cluster", "server"}, nil)
)

// Describe implements prometheus.Collector.
func (s state) Describe(to chan<- *prometheus.Desc) {
	to <- connections
	to <- currents
	to <- breakers
}

// Collect implements prometheus.Collector.
func (s state) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, c := range s.c.clusters {
		busy, idle, waiting := c.pool.counts()
		gauge(connections, float64(busy), c.name, "busy")
		gauge(connections, float64(idle), c.name, "idle")
		gauge(connections, float64(waiting), c.name, "waiting")
		gauge(currents, float64(c.current().server), c.name)
		for _, server := range c.servers {
			open := 0.0
			if server.open(time.Now()) {
				open = 1
			}
			gauge(breakers, open, c.name, server.address)
		}
	}
}

// Collectors returns what to register with Prometheus.
func (c *Coordinator) Collectors() []prometheus.Collector {
	m := c.metrics
	return []prometheus.Collector{m.requests, m.queries, m.rows, m.events, m.seconds, state{c}}
}

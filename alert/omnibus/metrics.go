package omnibus

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what a handler does.
type metrics struct {
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	inFlight    prometheus.Gauge
	sentBytes   prometheus.Counter
	sentRows    prometheus.Counter
	inserted    prometheus.Counter
	denied      prometheus.Counter
	notModified prometheus.Counter
	subscribers prometheus.Gauge
	events      prometheus.Counter
}

func newMetrics(server string) *metrics {
	labels := prometheus.Labels{"server": server}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "mainstem", Subsystem: "omnibus", Name: name, Help: help, ConstLabels: labels})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "mainstem", Subsystem: "omnibus", Name: name, Help: help, ConstLabels: labels})
	}
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "mainstem", Subsystem: "omnibus", Name: "requests_total",
			Help: "Requests answered, by what their path names, method and status.", ConstLabels: labels}, []string{"path", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "mainstem", Subsystem: "omnibus", Name: "request_seconds",
			Help: "Time from a request's header to the end of its answer.", ConstLabels: labels,
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 120}}, []string{"path"}),
		inFlight:    gauge("requests_in_flight", "Requests that are being served, feeds included."),
		sentBytes:   counter("response_bytes_total", "Bytes of answers, before compression."),
		sentRows:    counter("rows_sent_total", "Rows in answers."),
		inserted:    counter("rows_inserted_total", "Rows that POST to a table has written."),
		denied:      counter("authentication_failures_total", "Requests with a wrong name or password."),
		notModified: counter("not_modified_total", "Requests for a table that had not changed since the client asked last."),
		subscribers: gauge("feeds", "Change feeds that are open."),
		events:      counter("feed_events_total", "Changes sent in feeds."),
	}
}

// Collectors returns what counts the handler's work, for a Prometheus registry.
func (h *Handler) Collectors() []prometheus.Collector {
	m := h.metrics
	return []prometheus.Collector{m.requests, m.seconds, m.inFlight, m.sentBytes, m.sentRows, m.inserted, m.denied, m.notModified, m.subscribers, m.events}
}

// served counts a request that was answered.
func (m *metrics) served(k kind, method string, status int, took time.Duration, bytes, rows int64) {
	if _, ok := k.methods()[method]; !ok {
		method = "other" // whatever clients invent would be a label without end
	}
	m.requests.WithLabelValues(k.String(), method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(k.String()).Observe(took.Seconds())
	m.sentBytes.Add(float64(bytes))
	m.sentRows.Add(float64(rows))
}

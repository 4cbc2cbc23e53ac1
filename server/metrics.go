package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/mainstemdev/mainstem"
)

// metrics are the metrics of a server, in a registry of its own.
type metrics struct {
	registry *prometheus.Registry

	commits       *prometheus.CounterVec
	commitSeconds prometheus.Histogram
	batchWrites   prometheus.Histogram
	bytes         prometheus.Counter
	records       prometheus.Counter
	reads         *prometheus.CounterVec
	readErrors    *prometheus.CounterVec
	returned      *prometheus.CounterVec
	followers     prometheus.Gauge
	requests      *prometheus.CounterVec
	inFlight      prometheus.Gauge
	requestTime   *prometheus.HistogramVec
}

// Bounds of the histograms: 10 µs to 10 s, and 1 to 100,000 writes.
var (
	secondsBuckets = SecondsBuckets()
	writesBuckets  = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5}
)

func newMetrics() *metrics {
	r := prometheus.NewRegistry()
	m := &metrics{
		registry:      r,
		commits:       counters("mainstem_commits_total", "Commits by what became of them: ok, duplicate, or the kind of the error.", "result"),
		commitSeconds: histogram("mainstem_commit_seconds", "Time from the call of Commit to its return.", secondsBuckets),
		batchWrites:   histogram("mainstem_batch_writes", "Writes in a batch given to Commit.", writesBuckets),
		bytes:         counter("mainstem_written_bytes_total", "Bytes of keys, values and headers in committed batches."),
		records:       counter("mainstem_written_records_total", "Records that committed batches wrote."),
		reads:         counters("mainstem_reads_total", "Reads by method; a read that follows counts when it ends.", "method"),
		readErrors:    counters("mainstem_read_errors_total", "Reads that ended with an error, by method and kind.", "method", "kind"),
		returned:      counters("mainstem_read_records_total", "Records that scans, reads and feeds returned.", "method"),
		followers:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstem_followers", Help: "Reads and feeds that are following now."}),
		requests:      counters("mainstem_rpc_requests_total", "RPC requests by procedure and HTTP status.", "procedure", "status"),
		inFlight:      prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstem_rpc_in_flight", Help: "RPC requests being served now."}),
		requestTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mainstem_rpc_seconds", Help: "Time to serve an RPC request, streams included.", Buckets: secondsBuckets,
		}, []string{"procedure"}),
	}
	r.MustRegister(m.commits, m.commitSeconds, m.batchWrites, m.bytes, m.records, m.reads, m.readErrors,
		m.returned, m.followers, m.requests, m.inFlight, m.requestTime,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// registrations is a Registerer that records what a component registers. Components register in
// Start only.
type registrations struct {
	prometheus.Registerer
	all []prometheus.Collector
}

func (r *registrations) Register(c prometheus.Collector) error {
	err := r.Registerer.Register(c)
	if err == nil {
		r.all = append(r.all, c)
	}
	return err
}

func (r *registrations) MustRegister(all ...prometheus.Collector) {
	r.Registerer.MustRegister(all...)
	r.all = append(r.all, all...)
}

// remove unregisters everything that was registered.
func (r *registrations) remove() {
	for _, c := range r.all {
		r.Unregister(c)
	}
	r.all = nil
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

func (m *metrics) committed(b *mainstem.Batch, r mainstem.Receipt, err error, took time.Duration) {
	m.commitSeconds.Observe(took.Seconds())
	m.batchWrites.Observe(float64(b.Len()))
	switch {
	case err != nil:
		m.commits.WithLabelValues(mainstem.KindOf(err).String()).Inc()
		return
	case r.Duplicate:
		m.commits.WithLabelValues("duplicate").Inc()
		return
	}
	m.commits.WithLabelValues("ok").Inc()
	written, bytes := 0, 0
	writes := b.Writes()
	for i := range writes {
		bytes += writes[i].Size()
		if i < len(r.Versions) && r.Versions[i] != 0 {
			written++
		}
	}
	m.bytes.Add(float64(bytes))
	m.records.Add(float64(written))
}

func (m *metrics) read(method string, err error) {
	m.reads.WithLabelValues(method).Inc()
	if err != nil {
		m.readErrors.WithLabelValues(method, mainstem.KindOf(err).String()).Inc()
	}
}

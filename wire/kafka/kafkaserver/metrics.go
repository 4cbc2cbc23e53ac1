package kafkaserver

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// lagTimeout bounds the time in which one scrape reads the lags of groups.
const lagTimeout = 5 * time.Second

// maxLagSeries bounds the lags of one scrape, because every pair of a group and a partition is
// a series in the system that stores them. The lags beyond it are left out.
const maxLagSeries = 10_000

// metrics counts the events of a Kafka server, as its [kafka.Metrics], and is a
// prometheus.Collector of these counts and of the lags of groups at the time of the scrape. The
// counts continue when Kafka is served again after the lease was lost. Its methods may be
// called from many goroutines.
type metrics struct {
	logger  *slog.Logger
	server  atomic.Pointer[kafka.Server] // nil while Kafka is not served
	failing atomic.Bool                  // the latest scrape did not get all lags

	connections     prometheus.Gauge
	accepted        prometheus.Counter
	refused         prometheus.Counter
	notCreated      prometheus.Counter
	requests        *prometheus.HistogramVec
	in, out         prometheus.Counter
	records, stored prometheus.Counter
	lagErrors       prometheus.Counter
}

var lagDesc = prometheus.NewDesc("mainstem_kafka_group_lag",
	"Offsets between what a consumer group has committed and the end of the partition.", []string{"group", "topic", "partition"}, nil)

var servingDesc = prometheus.NewDesc("mainstem_kafka_serving",
	"1 while Kafka clients are served, 0 while the lease to serve Kafka is lost.", nil, nil)

func newMetrics(l *slog.Logger) *metrics {
	return &metrics{
		logger:      l,
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "mainstem_kafka_connections", Help: "Connections of Kafka clients now."}),
		accepted:    counter("mainstem_kafka_connections_total", "Connections of Kafka clients accepted."),
		refused:     counter("mainstem_kafka_connections_refused_total", "Connections closed at once because there were too many."),
		notCreated:  counter("mainstem_kafka_topics_not_created_total", "Topics that Kafka clients named and that were not created because of kafka-auto-create-rate, kafka-auto-create-topics or the limit of one request."),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mainstem_kafka_request_seconds", Help: "Time to serve a request of the Kafka protocol by API, waiting for records or members included.", Buckets: server.SecondsBuckets(),
		}, []string{"api"}),
		in:      counter("mainstem_kafka_received_bytes_total", "Bytes of requests of the Kafka protocol."),
		out:     counter("mainstem_kafka_sent_bytes_total", "Bytes of answers of the Kafka protocol."),
		records: counter("mainstem_kafka_produced_records_total", "Records that Kafka clients have produced."),
		stored:  counter("mainstem_kafka_produced_bytes_total", "Bytes of the record batches that Kafka clients have produced, as they came."),

		lagErrors: counter("mainstem_kafka_group_lag_errors_total", "Scrapes that do not have the lags of all consumer groups, because the log could not be read in time."),
	}
}

// Connected implements [kafka.Metrics], as do the next four methods.
func (f *metrics) Connected(change int) {
	f.connections.Add(float64(change))
	if change > 0 {
		f.accepted.Inc()
	}
}

// Refused counts a connection.
func (f *metrics) Refused() { f.refused.Inc() }

// NotCreated counts a topic.
func (f *metrics) NotCreated() { f.notCreated.Inc() }

// Served counts a request with its time and bytes.
func (f *metrics) Served(api string, took time.Duration, in, out int) {
	f.requests.WithLabelValues(api).Observe(took.Seconds())
	f.in.Add(float64(in))
	f.out.Add(float64(out))
}

// Produced counts the records and bytes of a Produce request.
func (f *metrics) Produced(records, bytes int) {
	f.records.Add(float64(records))
	f.stored.Add(float64(bytes))
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (f *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{f.connections, f.accepted, f.refused, f.notCreated, f.requests, f.in, f.out, f.records, f.stored, f.lagErrors}
}

// Describe implements prometheus.Collector.
func (f *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range f.collectors() {
		c.Describe(ch)
	}
	ch <- lagDesc
	ch <- servingDesc
}

// Collect implements prometheus.Collector. It reads the lags from the log, within lagTimeout;
// while Kafka is not served, there are none. If they cannot be read, the scrape has those that
// were read before the error, and all other metrics.
func (f *metrics) Collect(ch chan<- prometheus.Metric) {
	serving := 0.0
	if running := f.server.Load(); running != nil {
		serving = 1
		f.countFailure(collectLags(ch, running))
	}
	ch <- prometheus.MustNewConstMetric(servingDesc, prometheus.GaugeValue, serving)
	for _, c := range f.collectors() {
		c.Collect(ch)
	}
}

// countFailure counts a scrape that does not have all lags. It logs the first of several in a
// row. nil means that the scrape has them.
func (f *metrics) countFailure(err error) {
	was := f.failing.Swap(err != nil)
	if err == nil {
		return
	}
	f.lagErrors.Inc()
	if !was {
		f.logger.Warn("lags of Kafka consumer groups are missing in /metrics", "error", err)
	}
}

func collectLags(ch chan<- prometheus.Metric, running *kafka.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), lagTimeout)
	defer cancel()
	n := 0
	for lag, err := range running.Lags(ctx) {
		if err != nil {
			return err
		}
		m, err := prometheus.NewConstMetric(lagDesc, prometheus.GaugeValue, float64(lag.Offsets()), lag.Group, lag.Topic, strconv.Itoa(int(lag.Partition)))
		if err != nil {
			continue // a client may name a group by bytes that are not UTF-8: no metric can have them
		}
		ch <- m
		if n++; n == maxLagSeries {
			return nil
		}
	}
	return nil
}

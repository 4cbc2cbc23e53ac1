package alertserver

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/ingest"
)

// automations are what the automations of the alert tables have done, at the
// time of the scrape.
type automations struct{ tables *alert.Server }

var (
	automationRuns     = automationDesc("runs_total", "Times that an automation ran; of one on rows, the rows.")
	automationFailures = automationDesc("failures_total", "Runs of an automation that ended in an error.")
	automationRows     = automationDesc("rows_total", "Rows that an automation with an interval changed.")
	automationSeconds  = automationDesc("seconds_total", "Time that an automation with an interval has run.")
	automationEnabled  = automationDesc("enabled", "1 if an automation is enabled, else 0.")
)

func automationDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("mainstem_alert_automation_"+name, help, []string{"name"}, nil)
}

// Describe implements prometheus.Collector.
func (f automations) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{automationRuns, automationFailures, automationRows, automationSeconds, automationEnabled} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f automations) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v float64, name string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, name)
	}
	for _, a := range f.tables.Automations() {
		count(automationRuns, float64(a.Runs), a.Name)
		count(automationFailures, float64(a.Failures), a.Name)
		count(automationRows, float64(a.Rows), a.Name)
		count(automationSeconds, a.Total.Seconds(), a.Name)
		enabled := 0.0
		if a.Enabled {
			enabled = 1
		}
		ch <- prometheus.MustNewConstMetric(automationEnabled, prometheus.GaugeValue, enabled, a.Name)
	}
}

// ingestCounters are what a receiver has done, at the time of the scrape.
type ingestCounters struct {
	source   ingest.Source
	counters func() ingest.Counters
}

// ingestMetric is one of them.
type ingestMetric struct {
	name, help string
	reason     string // a label besides the source, unless it is ""
	kind       prometheus.ValueType
	value      func(*ingest.Counters) int64
}

const (
	refusedHelp = "Messages and alerts that became no row: the mapping does not fit them (unmapped), or the table refused the row (rejected)."
	droppedHelp = "Messages and alerts that were left out: by a rule of the mapping (rule), because too many were waiting (overflow), or when the server had to end (lost)."
)

var ingestMetrics = []ingestMetric{
	{"received_total", "Messages, and alerts of requests, that came in.", "", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Received }},
	{"received_bytes_total", "Bytes that came in.", "", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Bytes }},
	{"written_total", "Rows that were written, as durably as the server does it.", "", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Written }},
	{"refused_total", refusedHelp, "unmapped", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Unmapped }},
	{"refused_total", refusedHelp, "rejected", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Rejected }},
	{"dropped_total", droppedHelp, "rule", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Dropped }},
	{"dropped_total", droppedHelp, "overflow", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Overflow }},
	{"dropped_total", droppedHelp, "lost", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Lost }},
	{"malformed_total", "Messages of no known form, which were taken as text, and requests that were refused.", "", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Malformed }},
	{"truncated_total", "Messages that were too long: their beginnings were taken.", "", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Truncated }},
	{"inserts_total", "Inserts of one or many rows that succeeded.", "", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Batches }},
	{"retries_total", "Inserts that failed and were tried again.", "", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Retries }},
	{"waiting", "Rows that wait to be written.", "", prometheus.GaugeValue, func(c *ingest.Counters) int64 { return c.Waiting }},
	{"requests_total", "Requests to the webhook.", "", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Requests }},
	{"requests_abandoned_total", "Requests that ended before their alerts were written.", "", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.Abandoned }},
	{"connections", "Connections of syslog senders that are open.", "", prometheus.GaugeValue, func(c *ingest.Counters) int64 { return c.Connections }},
	{"connections_refused_total", "Connections of syslog senders that were refused because there were too many.", "", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.ConnectionsRefused }},
	{"connections_broken_total", "Connections of syslog senders that ended within a message, or were not framed.", "", prometheus.CounterValue, func(c *ingest.Counters) int64 { return c.ConnectionsBroken }},
}

func (f *ingestMetric) describe(source ingest.Source) *prometheus.Desc {
	labels := prometheus.Labels{"source": string(source)}
	if f.reason != "" {
		labels["reason"] = f.reason
	}
	return prometheus.NewDesc("mainstem_alert_ingest_"+f.name, f.help, nil, labels)
}

// Describe implements prometheus.Collector.
func (s ingestCounters) Describe(ch chan<- *prometheus.Desc) {
	for i := range ingestMetrics {
		ch <- ingestMetrics[i].describe(s.source)
	}
}

// Collect implements prometheus.Collector.
func (s ingestCounters) Collect(ch chan<- prometheus.Metric) {
	c := s.counters()
	for i := range ingestMetrics {
		f := &ingestMetrics[i]
		ch <- prometheus.MustNewConstMetric(f.describe(s.source), f.kind, float64(f.value(&c)))
	}
}

package server

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem/wire/rpc"
)

// sessionMetrics reports the sessions of the clients at the time of a scrape.
type sessionMetrics struct{ of *rpc.Handler }

var (
	sessionsOpen   = prometheus.NewDesc("mainstem_sessions", "Sessions of the log's clients that are open now.", nil, nil)
	sessionsOpened = prometheus.NewDesc("mainstem_sessions_total", "Sessions that were opened.", nil, nil)
	sessionCalls   = prometheus.NewDesc("mainstem_session_calls_total", "Calls that began in sessions, by procedure.", []string{"procedure"}, nil)
	sessionBytes   = prometheus.NewDesc("mainstem_session_bytes_total", "Bytes of sessions, by direction: in from clients, out to them.", []string{"direction"}, nil)
)

// Describe implements prometheus.Collector.
func (m sessionMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sessionsOpen, sessionsOpened, sessionCalls, sessionBytes} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m sessionMetrics) Collect(ch chan<- prometheus.Metric) {
	s := m.of.SessionStats()
	ch <- prometheus.MustNewConstMetric(sessionsOpen, prometheus.GaugeValue, float64(s.Open))
	ch <- prometheus.MustNewConstMetric(sessionsOpened, prometheus.CounterValue, float64(s.Opened))
	for procedure, calls := range s.Calls {
		ch <- prometheus.MustNewConstMetric(sessionCalls, prometheus.CounterValue, float64(calls), procedure)
	}
	ch <- prometheus.MustNewConstMetric(sessionBytes, prometheus.CounterValue, float64(s.BytesIn), "in")
	ch <- prometheus.MustNewConstMetric(sessionBytes, prometheus.CounterValue, float64(s.BytesOut), "out")
}

// tokenEvery is the interval at which the token file is checked. A session with the old token
// ends within a second of a change.
const tokenEvery = 250 * time.Millisecond

// watchToken applies changes of the token file until ctx ends: new requests need the new token
// at once, and sessions with the old one end. A file that cannot be read, or has no token, is
// ignored.
func (n *Server) watchToken(ctx context.Context) {
	tick := time.NewTicker(tokenEvery)
	defer tick.Stop()
	var seen os.FileInfo
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		info, err := os.Stat(n.config.TokenFile)
		if err != nil || seen != nil && os.SameFile(info, seen) && info.ModTime().Equal(seen.ModTime()) && info.Size() == seen.Size() {
			continue
		}
		token, err := ReadToken(n.config.TokenFile)
		if err != nil {
			n.logger.WarnContext(ctx, "the token file has changed and cannot be used: the token stays", "err", err)
			seen = info
			continue
		}
		if time.Since(info.ModTime()) > 2*time.Second {
			seen = info // a later change has another time, even if the file system records only seconds
		}
		if token != *n.tokenNow.Load() {
			n.tokenNow.Store(&token)
			n.rpc.SetToken(token)
			n.logger.InfoContext(ctx, "the token has changed")
		}
	}
}

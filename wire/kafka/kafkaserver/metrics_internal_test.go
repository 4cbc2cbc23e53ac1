package kafkaserver

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// unscanned is a log whose spaces cannot be scanned while broken is set.
type unscanned struct {
	mainstem.Log
	broken atomic.Bool
}

func (l *unscanned) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	if !l.broken.Load() {
		return l.Log.Scan(ctx, space, r)
	}
	return func(yield func(mainstem.Record, error) bool) {
		yield(mainstem.Record{}, mainstem.Errorf(mainstem.KindUnavailable, "scan", "%w", errors.New("the disk is gone")))
	}
}

// gathered returns the values of all metrics without labels, and how many lags there are.
func gathered(t *testing.T, r *prometheus.Registry) (values map[string]float64, lags int) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values = map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			switch {
			case f.GetName() == "mainstem_kafka_group_lag":
				lags++
			case m.Gauge != nil:
				values[f.GetName()] = m.Gauge.GetValue()
			case m.Counter != nil:
				values[f.GetName()] = m.Counter.GetValue()
			}
		}
	}
	return values, lags
}

// A scrape has all other metrics when the lags of groups cannot be read, and when the name of a
// group cannot be a label.
func TestMetricsWithoutLags(t *testing.T) {
	log := &unscanned{Log: testengines.Memory(t)}
	topics, err := topic.Open(log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := kafka.Open(t.Context(), topics, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(s.Shutdown(context.Background()), topics.Close()); err != nil {
			t.Error(err)
		}
	}()
	tp, err := topics.Create(t.Context(), "t", topic.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"g", "\xff"} {
		b := mainstem.NewBatch()
		tp.Offsets(group).CommitOffsetTo(b, 0, topic.Offset{Next: 0})
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	m := newMetrics(slog.New(slog.NewTextHandler(&text, nil)))
	m.server.Store(s)
	m.Connected(1)
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	for _, step := range []struct {
		broken       bool
		lags, errors int
		logged       int
	}{{false, 1, 0, 0}, {true, 0, 1, 1}, {true, 0, 2, 1}, {false, 1, 2, 1}, {true, 0, 3, 2}} {
		log.broken.Store(step.broken)
		values, lags := gathered(t, r)
		if lags != step.lags || values["mainstem_kafka_group_lag_errors_total"] != float64(step.errors) {
			t.Errorf("%+v: %d lags, %v", step, lags, values)
		}
		if values["mainstem_kafka_serving"] != 1 || values["mainstem_kafka_connections"] != 1 {
			t.Errorf("%+v: %v", step, values)
		}
		if n := strings.Count(text.String(), "the disk is gone"); n != step.logged {
			t.Errorf("%+v: logged %d times: %s", step, n, &text)
		}
	}
}

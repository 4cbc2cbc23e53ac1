package server

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// TestClockMetrics has a clock jump forward, with a commit, and come back.
func TestClockMetrics(t *testing.T) {
	var ahead atomic.Int64
	log, err := pebblelog.OpenMemory(&pebblelog.Options{
		Now:       func() time.Time { return time.Unix(1_900_000_000, 0).Add(time.Duration(ahead.Load())) },
		Monotonic: func() time.Duration { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r := prometheus.NewRegistry()
	r.MustRegister(&contents{log: log})
	metrics := func(held, times, jumps, backs float64) {
		t.Helper()
		all, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range all {
			m := f.Metric[0]
			got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		for name, want := range map[string]float64{
			"mainstem_clock_held_seconds": held, "mainstem_clock_times_ahead_seconds": times,
			"mainstem_clock_jumps_total": jumps, "mainstem_clock_set_backs_total": backs,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
			}
		}
	}
	commit := func() {
		t.Helper()
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{})
		b.Put("s", []byte("k"), nil)
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	commit()
	metrics(0, 0, 0, 0)
	ahead.Store(int64(time.Hour))
	commit()
	metrics(3600, 0, 1, 0)
	ahead.Store(0)
	commit()
	metrics(0, 3600, 1, 1)
}

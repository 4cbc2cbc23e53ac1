package natslog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// BenchmarkCommit compares a commit with a raw JetStream publish of the same value to
// the same server, in turns. It reports ratio, the time of a commit over that of a
// publish, and for batches of 100 per-record, the time of one of its records over that
// of a commit of one.
func BenchmarkCommit(b *testing.B) {
	for _, bench := range []struct {
		name     string
		replicas int
		sync     bool
	}{{"one server", 1, false}, {"one server sync", 1, true}, {"three servers", 3, false}} {
		b.Run(bench.name, func(b *testing.B) {
			o := &testnats.Options{SyncAlways: bench.sync}
			var url string
			if bench.replicas == 1 {
				url = testnats.NewServer(b, o).URL()
			} else {
				url = testnats.NewCluster(b, bench.replicas, o).URL()
			}
			benchmarkCommit(b, url, bench.replicas)
		})
	}
}

func benchmarkCommit(b *testing.B, url string, replicas int) {
	log, err := natslog.Open(url, &natslog.Options{Replicas: replicas})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	js := testnats.JetStream(b, testnats.Connect(b, url))
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw.>"}, Replicas: replicas}); err != nil {
		b.Fatal(err)
	}
	if err := log.CreateSpace(b.Context(), "s", mainstem.Policy{}); err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 256)
	one, hundred := mainstem.NewBatch(), mainstem.NewBatch()
	one.Put("s", []byte("key"), value)
	for i := range 100 {
		hundred.Put("s", fmt.Append(nil, "key ", i), value)
	}
	commit := func(batch *mainstem.Batch) {
		if _, err := log.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	publish := func() {
		if _, err := js.Publish(b.Context(), "raw.key", value); err != nil {
			b.Fatal(err)
		}
	}
	for range 100 {
		publish()
		commit(one)
	}
	var raw, single, batch time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += 10 {
		raw += timed(10, publish)
		single += timed(10, func() { commit(one) })
		batch += timed(1, func() { commit(hundred) })
	}
	b.ReportMetric(float64(single)/float64(raw), "ratio")
	b.ReportMetric(float64(batch)/10/float64(single), "per-record")
	b.ReportMetric(float64(raw.Nanoseconds())/float64(b.N), "raw-ns/op")
	b.ReportMetric(float64(single.Nanoseconds())/float64(b.N), "commit-ns/op")
}

// timed returns how long n calls of f take.
func timed(n int, f func()) time.Duration {
	start := time.Now()
	for range n {
		f()
	}
	return time.Since(start)
}

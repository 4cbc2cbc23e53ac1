package pebblelog_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// percentile returns the p-th percentile, nearest rank, of sorted latencies.
func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[min(int(p/100*float64(len(sorted))), len(sorted)-1)]
}

func reportLatency(b *testing.B, all []time.Duration) {
	slices.Sort(all)
	for _, p := range []float64{50, 99, 99.9} {
		b.ReportMetric(float64(percentile(all, p).Nanoseconds())/1e3, "p"+strconv.FormatFloat(p, 'f', -1, 64)+"-µs")
	}
}

// BenchmarkGroupCommit commits small events with fsync from one goroutine and from
// 32, in the same run: one fsync serves all that wait.
func BenchmarkGroupCommit(b *testing.B) {
	l := openBench(b, nil)
	rate := func(b *testing.B, goroutines, each int) (perSecond float64, all []time.Duration) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		start := time.Now()
		for g := range goroutines {
			wg.Go(func() {
				batch := mainstem.NewBatch()
				key := fmt.Appendf(nil, "writer-%d", g)
				own := make([]time.Duration, 0, each)
				for range each {
					batch.Reset()
					batch.Ensure("event/bench", mainstem.Policy{})
					batch.Put("event/bench", key, event61)
					begin := time.Now()
					if _, err := l.Commit(context.Background(), batch); err != nil {
						b.Error(err)
						return
					}
					own = append(own, time.Since(begin))
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, own...)
			})
		}
		wg.Wait()
		return float64(goroutines*each) / time.Since(start).Seconds(), all
	}
	// One goroutine and 32 take turns, so that both meet the same noise.
	const rounds = 8
	var alone, many float64
	var all []time.Duration
	for range rounds {
		one, _ := rate(b, 1, max(b.N/rounds/8, 8))
		thirtyTwo, latencies := rate(b, 32, max(b.N/rounds/32, 8))
		alone, many = alone+one/rounds, many+thirtyTwo/rounds
		all = append(all, latencies...)
	}
	b.ReportMetric(many, "commits/s")
	b.ReportMetric(alone, "commits/s-alone")
	b.ReportMetric(many/alone, "x-one")
	reportLatency(b, all)
}

// BenchmarkFollower measures from the call of Commit to the follower's loop body in
// the same process, with an unbuffered channel as yardstick.
func BenchmarkFollower(b *testing.B) {
	l := openBench(b, &pebblelog.Options{Durability: mainstem.OS})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := l.CreateSpace(ctx, "event/bench", mainstem.Policy{}); err != nil {
		b.Fatal(err)
	}
	seen := make(chan time.Time)
	go func() {
		for _, err := range l.Feed(ctx, mainstem.Filter{Spaces: []string{"event/bench"}, Follow: true}) {
			if err != nil {
				return
			}
			seen <- time.Now()
		}
	}()
	batch := mainstem.NewBatch()
	all := make([]time.Duration, 0, b.N)
	for range b.N {
		batch.Reset()
		batch.Put("event/bench", []byte("stream"), event61)
		start := time.Now()
		go l.Commit(ctx, batch)
		all = append(all, (<-seen).Sub(start))
	}
	reportLatency(b, all)
}

// BenchmarkOpen opens a log of a million records after a clean stop.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	fillDirectory(b, dir, 1_000_000)
	for range b.N {
		l, err := pebblelog.Open(dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func fillDirectory(b *testing.B, dir string, keys int) {
	b.Helper()
	l, err := pebblelog.Open(dir, &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		b.Fatal(err)
	}
	fill(b, l, "kv/bench/t", mainstem.Policy{History: 1}, keys, 1)
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkResident holds many keys (KEYS, default one million), reads some of them
// at random, and reports the memory of the process.
func BenchmarkResident(b *testing.B) {
	keys := 1_000_000
	if v, err := strconv.Atoi(os.Getenv("KEYS")); err == nil {
		keys = v
	}
	dir := b.TempDir()
	fillDirectory(b, dir, keys)
	l, err := pebblelog.Open(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var key []byte
	for i := range b.N {
		key = fmt.Appendf(key[:0], "key-%07d", i*7919%keys)
		if _, err := l.Get(context.Background(), "kv/bench/t", key); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	b.ReportMetric(float64(keys), "keys")
	b.ReportMetric(resident(b), "MB-resident")
}

// resident returns the resident memory of the process in MB (Linux).
func resident(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal("the resident size is read from /proc, which this system lacks: ", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(kb) / 1024
		}
	}
	b.Fatal("no VmRSS line")
	return 0
}

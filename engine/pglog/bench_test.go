package pglog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// benchWriters is how many write at once in the benchmark of concurrency.
const benchWriters = 32

// contest is a log and the yardstick in the same database of a durable server.
type contest struct {
	log  *pglog.Log
	base *perEvent
}

func newContest(b *testing.B) contest {
	b.Helper()
	url := testpostgres.DB(b)
	c := contest{openLog(b, url, nil), openPerEvent(b, url, benchWriters)}
	b.Cleanup(func() {
		if err := c.log.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := c.log.CreateSpace(b.Context(), "event/bench", mainstem.Policy{}); err != nil {
		b.Fatal(err)
	}
	return c
}

// append appends events to a stream of the log, as the event view does.
func (c contest) append(ctx context.Context, stream string, events [][]byte) error {
	batch := mainstem.NewBatch()
	batch.Ensure("event/bench", mainstem.Policy{})
	for _, data := range events {
		batch.Add(mainstem.Write{Space: "event/bench", Key: []byte(stream), Value: data, Headers: mainstem.Headers{{Name: "$type", Value: []byte("OrderCreated")}}})
	}
	_, err := c.log.Commit(ctx, batch)
	return err
}

// block is how many operations of one side run before it is the other's turn.
const block = 50

// race runs b.N operations of each side in turns and reports the time of an operation
// of ours, its p50 and p99, and the ratio to the yardstick.
func race(b *testing.B, ours, base func(n int) error) {
	b.Helper()
	var spent, cpu [2]time.Duration
	var times []time.Duration
	for i := range 5 * block { // plans are made, caches are filled
		if err := ours(-1 - i); err != nil {
			b.Fatal(err)
		}
		if err := base(-1 - i); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for from := 0; from < b.N; from += block {
		for side, op := range []func(int) error{ours, base} {
			if side == 1 {
				b.StopTimer()
			}
			before := processorTime(b)
			for n := from; n < min(from+block, b.N); n++ {
				start := time.Now()
				if err := op(n); err != nil {
					b.Fatal(err)
				}
				d := time.Since(start)
				spent[side] += d
				if side == 0 {
					times = append(times, d)
				}
			}
			cpu[side] += processorTime(b) - before
		}
		b.StartTimer()
	}
	b.StopTimer()
	report(b, times)
	b.ReportMetric(float64(spent[0])/float64(spent[1]), "x-per-event")
	b.ReportMetric(float64(spent[1].Microseconds())/float64(b.N), "base-µs/op")
	b.ReportMetric(float64(cpu[0])/float64(cpu[1]), "x-cpu")
}

// processorTime is what this process and all servers named postgres have used so far. Of
// a machine that others use too it says more than the time on the clock.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		b.Fatal(err)
	}
	total := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	files, err := filepath.Glob("/proc/[0-9]*/schedstat")
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		name, err := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
		if err != nil || string(name) != "postgres\n" {
			continue
		}
		var ns int64
		if text, err := os.ReadFile(file); err == nil {
			if _, err := fmt.Sscan(string(text), &ns); err != nil {
				b.Fatal(err)
			}
		}
		total += time.Duration(ns)
	}
	return total
}

func report(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkOneEvent(b *testing.B) {
	c := newContest(b)
	events := [][]byte{event61}
	race(b, func(n int) error { return c.append(b.Context(), fmt.Sprint("order-", n), events) },
		func(n int) error { _, err := c.base.append(b.Context(), fmt.Sprint("order-", n), events); return err })
}

func BenchmarkBatchOf100(b *testing.B) {
	c := newContest(b)
	var events [][]byte
	for n := range 100 {
		events = append(events, order46(n))
	}
	race(b, func(n int) error { return c.append(b.Context(), fmt.Sprint("order-", n), events) },
		func(n int) error { _, err := c.base.append(b.Context(), fmt.Sprint("order-", n), events); return err })
}

// BenchmarkWriters lets 32 goroutines append single events; an operation is one event of
// each of them.
func BenchmarkWriters(b *testing.B) {
	c := newContest(b)
	events := [][]byte{event61}
	const each = 10
	all := func(n int, op func(stream string) error) error {
		errs := make(chan error, benchWriters)
		for w := range benchWriters {
			go func() {
				for i := range each {
					if err := op(fmt.Sprintf("order-%d-%d-%d", n, w, i)); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range benchWriters {
			if err := <-errs; err != nil {
				return err
			}
		}
		return nil
	}
	race(b, func(n int) error {
		return all(n, func(s string) error { return c.append(b.Context(), s, events) })
	}, func(n int) error {
		return all(n, func(s string) error { _, err := c.base.append(b.Context(), s, events); return err })
	})
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*benchWriters*each), "µs/event")
}

func BenchmarkLoad1000(b *testing.B) {
	c := newContest(b)
	var events [][]byte
	for n := range 1000 {
		events = append(events, order46(n))
	}
	if err := c.append(b.Context(), "long", events); err != nil {
		b.Fatal(err)
	}
	if _, err := c.base.append(b.Context(), "long", events); err != nil {
		b.Fatal(err)
	}
	race(b, func(int) error {
		n := 0
		for _, err := range c.log.Read(b.Context(), "event/bench", []byte("long"), mainstem.Versions{}) {
			if err != nil {
				return err
			}
			n++
		}
		if n != 1000 {
			return fmt.Errorf("read %d events", n)
		}
		return nil
	}, func(int) error {
		got, err := c.base.load(b.Context(), "long")
		if err == nil && len(got) != 1000 {
			err = fmt.Errorf("loaded %d events", len(got))
		}
		return err
	})
}

// BenchmarkFollower measures from the call of Commit to a follower that waits: of the
// same process, and of another log on the same database.
func BenchmarkFollower(b *testing.B) {
	for _, other := range []bool{false, true} {
		b.Run(map[bool]string{false: "same process", true: "notified"}[other], func(b *testing.B) {
			url := testpostgres.DB(b)
			log := openLog(b, url, nil)
			from := log
			if other {
				from = openLog(b, url, nil)
			}
			var wg sync.WaitGroup
			ctx, cancel := context.WithCancel(b.Context())
			arrived := make(chan struct{})
			wg.Go(func() {
				for _, err := range from.Feed(ctx, mainstem.Filter{Spaces: []string{"s"}, Follow: true}) {
					if err != nil {
						return
					}
					arrived <- struct{}{}
				}
			})
			var times []time.Duration
			for b.Loop() {
				start := time.Now()
				batch := mainstem.NewBatch()
				batch.Ensure("s", mainstem.Policy{})
				batch.Put("s", []byte("k"), event61)
				if _, err := log.Commit(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				<-arrived
				times = append(times, time.Since(start))
			}
			report(b, times)
			cancel()
			wg.Wait()
			if from != log {
				if err := from.Close(); err != nil {
					b.Error(err)
				}
			}
			if err := log.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

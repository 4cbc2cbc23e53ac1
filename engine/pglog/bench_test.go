package pglog_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// benchWriters is how many write at once in the benchmark of concurrency.
const benchWriters = 32

// contest is a log and the yardstick in the same database of a durable server.
type contest struct {
	log     *pglog.Log
	base    *perEvent
	monitor *pgx.Conn
	used    map[int]time.Duration // by the sessions of the database
}

func newContest(b *testing.B) contest {
	b.Helper()
	url := testpostgres.DB(b)
	monitor, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	c := contest{openLog(b, url, nil), openPerEvent(b, url, benchWriters), monitor, map[int]time.Duration{}}
	b.Cleanup(func() {
		if err := monitor.Close(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
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

// block is how many operations of one side run before it is the other's turn, warmUp how
// many run before any is measured: plans are made, caches are filled.
const (
	block  = 50
	warmUp = 5 * block
)

// race runs b.N operations of each side in turns and reports the time of an operation
// of ours, its p50 and p99, and the ratios to the yardstick: of all time, of the p50s and
// of the processor time. On a machine that others use too the last moves least.
func (c contest) race(b *testing.B, warm int, ours, base func(n int) error) {
	b.Helper()
	var cpu [2]time.Duration
	var times [2][]time.Duration
	for i := range warm {
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
			before := c.processorTime(b)
			for n := from; n < min(from+block, b.N); n++ {
				start := time.Now()
				if err := op(n); err != nil {
					b.Fatal(err)
				}
				times[side] = append(times[side], time.Since(start))
			}
			cpu[side] += c.processorTime(b) - before
		}
		b.StartTimer()
	}
	b.StopTimer()
	report(b, times[0])
	slices.Sort(times[1])
	spent := [2]time.Duration{}
	for side := range times {
		for _, d := range times[side] {
			spent[side] += d
		}
	}
	b.ReportMetric(float64(spent[0])/float64(spent[1]), "x-per-event")
	b.ReportMetric(float64(times[0][b.N/2])/float64(times[1][b.N/2]), "x-p50")
	b.ReportMetric(float64(spent[1].Microseconds())/float64(b.N), "base-µs/op")
	b.ReportMetric(float64(cpu[0])/float64(cpu[1]), "x-cpu")
}

// processorTime is what this process and the sessions of the database have used so far.
func (c contest) processorTime(b *testing.B) time.Duration {
	b.Helper()
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		b.Fatal(err)
	}
	total := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	rows, err := c.monitor.Query(b.Context(), "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	if err != nil {
		b.Fatal(err)
	}
	sessions, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		b.Fatal(err)
	}
	for _, pid := range sessions {
		var ns int64
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)); err == nil {
			if _, err := fmt.Sscan(string(text), &ns); err != nil {
				b.Fatal(err)
			}
		}
		c.used[pid] = max(c.used[pid], time.Duration(ns)) // a session that has ended keeps what it had
	}
	for _, d := range c.used {
		total += d
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
	c.race(b, warmUp, func(n int) error { return c.append(b.Context(), fmt.Sprint("order-", n), events) },
		func(n int) error { _, err := c.base.append(b.Context(), fmt.Sprint("order-", n), events); return err })
}

// BenchmarkWithID compares a put with a batch ID with one without.
func BenchmarkWithID(b *testing.B) {
	c := newContest(b)
	put := func(id string) error {
		batch := mainstem.NewBatch()
		batch.ID = id
		batch.Ensure("s", mainstem.Policy{})
		batch.Put("s", []byte("key"), event61)
		_, err := c.log.Commit(b.Context(), batch)
		return err
	}
	c.race(b, warmUp, func(n int) error { return put(fmt.Sprint("batch ", n)) }, func(int) error { return put("") })
}

func BenchmarkBatchOf100(b *testing.B) {
	c := newContest(b)
	var events [][]byte
	for n := range 100 {
		events = append(events, order46(n))
	}
	c.race(b, warmUp, func(n int) error { return c.append(b.Context(), fmt.Sprint("order-", n), events) },
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
	c.race(b, warmUp/benchWriters, func(n int) error {
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
	c.race(b, warmUp, func(int) error {
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

package remotelog_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/engine/remotelog"
)

// behind returns a log in memory with 1,000 records of 61 bytes.
func behind(b *testing.B) *pebblelog.Log {
	b.Helper()
	log, err := pebblelog.OpenMemory(&pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	batch := mainstem.NewBatch()
	batch.Ensure("s", mainstem.Policy{})
	for i := range 1000 {
		batch.Put("s", fmt.Appendf(nil, "key-%04d", i), make([]byte, 61))
	}
	if _, err := log.Commit(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	return log
}

// ratio runs work on the log of this process, then on the same log over HTTP/2 on
// loopback, and reports the second with its ratio to the first.
func ratio(b *testing.B, work func(b *testing.B, log mainstem.Log, n int) time.Duration) {
	here := behind(b)
	there := open(b, serve(b, here, nil).URL, nil)
	work(b, there, 100) // connect, and warm up
	b.ResetTimer()
	inProcess := work(b, here, b.N)
	b.ReportAllocs()
	overRPC := work(b, there, b.N)
	b.ReportMetric(float64(inProcess.Nanoseconds())/float64(b.N), "local-ns/op")
	b.ReportMetric(float64(overRPC.Nanoseconds())/float64(b.N), "rpc-ns/op")
	b.ReportMetric(float64(overRPC)/float64(inProcess), "x-local")
	b.ReportMetric(0, "ns/op") // of both together: says nothing
}

func BenchmarkGet(b *testing.B) {
	ratio(b, func(b *testing.B, log mainstem.Log, n int) time.Duration {
		key := []byte("key-0500")
		began := time.Now()
		for range n {
			if _, err := log.Get(context.Background(), "s", key); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(began)
	})
}

// puts commits one put n times.
func puts(b *testing.B, log mainstem.Log, n int) time.Duration {
	batch, value := mainstem.NewBatch(), make([]byte, 61)
	began := time.Now()
	for range n {
		batch.Reset()
		batch.Put("s", []byte("key-0500"), value)
		if _, err := log.Commit(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(began)
}

func BenchmarkCommit(b *testing.B) { ratio(b, puts) }

// By turns, commits of a Log without and with BatchIDs, of one program and of 32 at a time, and the
// ratio of the second to the first.
func BenchmarkCommitWithBatchIDs(b *testing.B) {
	for _, clients := range []int{1, 32} {
		b.Run(fmt.Sprintf("%d at a time", clients), func(b *testing.B) {
			url := serve(b, behind(b), nil).URL
			logs := []mainstem.Log{open(b, url, nil), open(b, url, &remotelog.Options{BatchIDs: true})}
			const turn = 2048 // commits
			var spent [2]time.Duration
			commits := 0
			for warm := true; commits < b.N || commits == 0; warm = false {
				for i, log := range logs {
					began := time.Now()
					var running sync.WaitGroup
					for range clients {
						running.Go(func() { puts(b, log, turn/clients) })
					}
					running.Wait()
					if !warm {
						spent[i] += time.Since(began)
					}
				}
				if !warm {
					commits += turn
				}
			}
			b.ReportMetric(float64(spent[0].Nanoseconds())/float64(commits), "plain-ns/op")
			b.ReportMetric(float64(spent[1].Nanoseconds())/float64(commits), "ids-ns/op")
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "x-plain")
			b.ReportMetric(0, "ns/op") // of both together: says nothing
		})
	}
}

// One operation is a scan of 1,000 records.
func BenchmarkScan1000(b *testing.B) {
	ratio(b, func(b *testing.B, log mainstem.Log, n int) time.Duration {
		began := time.Now()
		for range n {
			records := 0
			for _, err := range log.Scan(context.Background(), "s", mainstem.Range{Limit: 1000}) {
				if err != nil {
					b.Fatal(err)
				}
				records++
			}
			if records != 1000 {
				b.Fatalf("%d records", records)
			}
		}
		return time.Since(began)
	})
}

// From the call of Commit to the record in the hands of a follower: of this process,
// and over HTTP/2 on loopback. "busy" commits as soon as the record before has arrived,
// so nothing on the way goes to sleep; "idle" leaves the follower alone for a while
// first, so that all on the way must wake up, and is what a waiting follower sees.
func BenchmarkCommitToWaitingFollower(b *testing.B) {
	here := behind(b)
	there := open(b, serve(b, here, nil).URL, nil)
	for _, c := range []struct {
		name string
		log  mainstem.Log
		rest time.Duration
	}{
		{"local commit busy", here, 0}, {"local commit idle", here, time.Millisecond},
		{"rpc commit busy", there, 0}, {"rpc commit idle", there, time.Millisecond},
	} {
		b.Run(c.name, func(b *testing.B) {
			local := followerLatency(b, c.log, here, c.rest)
			remote := followerLatency(b, c.log, there, c.rest)
			b.ReportMetric(micros(local, 0.5), "local-p50-µs")
			b.ReportMetric(micros(local, 0.99), "local-p99-µs")
			b.ReportMetric(micros(remote, 0.5), "rpc-p50-µs")
			b.ReportMetric(micros(remote, 0.99), "rpc-p99-µs")
			b.ReportMetric(micros(remote, 0.5)/micros(local, 0.5), "x-local-p50")
			b.ReportMetric(0, "ns/op") // of both together: says nothing
		})
	}
}

// followerLatency commits b.N times to log, each when the follower of from has had the
// record before and then rest has passed, and returns the times in order. It fails
// unless the follower gets exactly what was committed.
func followerLatency(b *testing.B, log, from mainstem.Log, rest time.Duration) []time.Duration {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	head, err := from.Head(ctx)
	if err != nil {
		b.Fatal(err)
	}
	type arrival struct {
		at       time.Time
		position mainstem.Position
	}
	arrived := make(chan arrival)
	go func() {
		defer close(arrived)
		for r, err := range from.Feed(ctx, mainstem.Filter{Spaces: []string{"s"}, After: head, Follow: true}) {
			if err != nil {
				return
			}
			arrived <- arrival{time.Now(), r.Position}
		}
	}()
	batch, value := mainstem.NewBatch(), make([]byte, 61)
	samples := make([]time.Duration, 0, b.N)
	for range b.N {
		if rest > 0 {
			<-time.After(rest)
		}
		batch.Reset()
		batch.Put("s", []byte("live"), value)
		began := time.Now()
		receipt, err := log.Commit(ctx, batch)
		if err != nil {
			b.Fatal(err)
		}
		a := <-arrived
		if a.position != receipt.Last {
			b.Fatalf("position %d arrived, %d was committed", a.position, receipt.Last)
		}
		samples = append(samples, a.at.Sub(began))
	}
	cancel()
	for range arrived { // until the follower has ended
	}
	slices.Sort(samples)
	return samples
}

func micros(sorted []time.Duration, quantile float64) float64 {
	return float64(sorted[int(quantile*float64(len(sorted)-1))].Nanoseconds()) / 1e3
}

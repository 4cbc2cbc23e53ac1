package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// testCase is a line or two of the table.
type testCase struct {
	name       string
	goal       string
	unit       string // of the result
	throughput bool   // worth several rounds
	run        measurement
	// fake runs the same against kfake, and other runs something else against
	// Mainstem; either way the ratio is to the second line.
	fake      bool
	other     measurement
	otherName string
}

// measurement measures a broker that has just been started.
type measurement func(context.Context, *options, *broker) (result, error)

var cases = []testCase{
	{name: "produce-100B", goal: "ratio 1.0", unit: "records/s", throughput: true, run: producing(1_000_000, 100), fake: true},
	{name: "produce-1KiB", goal: "ratio 1.0", unit: "records/s", throughput: true, run: producing(200_000, 1024), fake: true},
	{name: "consume-tail-100B", goal: "ratio 1.2", unit: "records/s", throughput: true, run: consuming(1_000_000, 100, false), fake: true},
	{name: "consume-tail-1KiB", goal: "ratio 1.2", unit: "records/s", throughput: true, run: consuming(200_000, 1024, false), fake: true},
	{name: "consume-cold-100B", goal: "ratio 1.2", unit: "records/s", throughput: true, run: consuming(1_000_000, 100, true), fake: true},
	{name: "consume-cold-1KiB", goal: "ratio 1.2", unit: "records/s", throughput: true, run: consuming(200_000, 1024, true), fake: true},
	{name: "sync-acks1", goal: "p50 60 µs", unit: "records/s", throughput: true, run: oneByOne, fake: true},
	{name: "end-to-end", goal: "p50 300 µs, p99 2 ms", unit: "records/s", run: endToEnd, fake: true},
	{name: "acks-all-64", goal: "ratio 20", unit: "records/s", throughput: true, run: together(64), other: together(1), otherName: "one producer"},
	{name: "start-to-produce", goal: "200 ms", unit: "ms, mean", run: coldStart},
	{name: "idle-1000", goal: "100 MB, no CPU", unit: "% CPU", run: idle, fake: true},
}

// lines returns what is measured in turns.
func (c testCase) lines() []line {
	out := []line{{"mainstem", "mainstem", c.run}}
	if c.fake {
		out = append(out, line{"kfake", "kfake", c.run})
	}
	if c.other != nil {
		out = append(out, line{c.otherName, "mainstem", c.other})
	}
	return out
}

// line is one line of the table.
type line struct {
	name, broker string
	run          measurement
}

// result of one round.
type result struct {
	rate float64
	rss  float64
	h    *hdrhistogram.Histogram // of nanoseconds; nil if nothing was timed
}

func (r result) text(unit string) []string {
	out := []string{fmt.Sprintf("%.5g %s", r.rate, unit), "", "", ""}
	if r.h != nil {
		for i, q := range []float64{50, 99, 99.9} {
			out[i+1] = time.Duration(r.h.ValueAtQuantile(q)).Round(time.Microsecond).String()
		}
	}
	return append(out, fmt.Sprintf("%.0f", r.rss))
}

// newHistogram holds up to a minute, in nanoseconds, to three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Minute), 3)
}

const topic = "speed"

// newClient connects a plain producer or consumer.
func newClient(b *broker, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.address), kgo.DefaultProduceTopic(topic), kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, opts...)...)
}

func createTopic(ctx context.Context, cl *kgo.Client, partitions int32) error {
	_, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, nil, topic)
	return err
}

// fill produces n records of a size to one partition, with linger 5 ms and acks=1.
func fill(ctx context.Context, b *broker, n, size int) (result, error) {
	cl, err := newClient(b, kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(50_000), kgo.ProducerBatchMaxBytes(1_000_000))
	if err != nil {
		return result{}, err
	}
	defer cl.Close()
	if err := createTopic(ctx, cl, 1); err != nil {
		return result{}, err
	}
	value := make([]byte, size)
	for i := range value {
		value[i] = byte('a' + i%26)
	}
	h := newHistogram()
	var failed atomic.Pointer[error]
	var mu sync.Mutex
	begin := time.Now()
	for i := range n {
		at, timed := time.Time{}, i%100 == 0
		if timed {
			at = time.Now()
		}
		cl.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			} else if timed {
				mu.Lock()
				_ = h.RecordValue(int64(time.Since(at)))
				mu.Unlock()
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return result{}, err
	}
	took := time.Since(begin)
	if err := failed.Load(); err != nil {
		return result{}, *err
	}
	return result{rate: float64(n) / took.Seconds(), h: h}, nil
}

func producing(n, size int) measurement {
	return func(ctx context.Context, o *options, b *broker) (result, error) {
		return fill(ctx, b, int(float64(n)*o.scale), size)
	}
}

// consuming reads what was just produced; cold, after the server was started
// again and its files were forgotten by the system.
func consuming(n, size int, cold bool) measurement {
	return func(ctx context.Context, o *options, b *broker) (result, error) {
		n := int(float64(n) * o.scale)
		if _, err := fill(ctx, b, n, size); err != nil {
			return result{}, err
		}
		if cold && b.chill != nil {
			if err := b.chill(); err != nil {
				return result{}, err
			}
		}
		cl, err := newClient(b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			return result{}, err
		}
		defer cl.Close()
		begin := time.Now()
		for got := 0; got < n; {
			fetches := cl.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return result{}, err
			}
			got += fetches.NumRecords()
		}
		return result{rate: float64(n) / time.Since(begin).Seconds()}, nil
	}
}

// oneByOne waits for each record before the next.
func oneByOne(ctx context.Context, o *options, b *broker) (result, error) {
	cl, err := newClient(b, kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerLinger(0))
	if err != nil {
		return result{}, err
	}
	defer cl.Close()
	if err := createTopic(ctx, cl, 1); err != nil {
		return result{}, err
	}
	n := max(10, int(20_000*o.scale))
	return sequence(ctx, cl, n/10, n)
}

// sequence sends records one after another; those of the warm-up are not timed.
func sequence(ctx context.Context, cl *kgo.Client, warm, n int) (result, error) {
	h := newHistogram()
	value := make([]byte, 100)
	begin := time.Now()
	for i := range warm + n {
		if i == warm {
			begin = time.Now()
		}
		at := time.Now()
		if err := cl.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr(); err != nil {
			return result{}, err
		}
		if i >= warm {
			_ = h.RecordValue(int64(time.Since(at)))
		}
	}
	return result{rate: float64(n) / time.Since(begin).Seconds(), h: h}, nil
}

// together has a number of producers, each on a connection of its own, send one
// record at a time with acks=all.
func together(producers int) measurement {
	return func(ctx context.Context, o *options, b *broker) (result, error) {
		each := max(1, int(300*o.scale))
		clients := make([]*kgo.Client, producers)
		for i := range clients {
			cl, err := newClient(b, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0))
			if err != nil {
				return result{}, err
			}
			defer cl.Close()
			clients[i] = cl
		}
		if err := createTopic(ctx, clients[0], 1); err != nil {
			return result{}, err
		}
		results, errs := make([]result, producers), make([]error, producers)
		for _, warm := range []bool{true, false} {
			n := each
			if warm {
				n = 5
			}
			begin := time.Now()
			var wg sync.WaitGroup
			for i, cl := range clients {
				wg.Go(func() { results[i], errs[i] = sequence(ctx, cl, 0, n) })
			}
			wg.Wait()
			all := result{rate: float64(n*producers) / time.Since(begin).Seconds(), h: newHistogram()}
			for i, r := range results {
				if errs[i] != nil {
					return result{}, errs[i]
				}
				all.h.Merge(r.h)
			}
			if !warm {
				return all, nil
			}
		}
		return result{}, nil
	}
}

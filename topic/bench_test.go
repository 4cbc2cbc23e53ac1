package topic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// The benchmarks write and read the same bytes with a topic and, in turns, with the bare contract
// of the log. They report the ratio of the times.

func benchTopic(b *testing.B) (*pebblelog.Log, *Topic) {
	b.Helper()
	log, err := pebblelog.Open(b.TempDir(), &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		b.Fatal(err)
	}
	c, err := Open(log, &Options{Every: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(c.Close(), log.Close()); err != nil {
			b.Error(err)
		}
	})
	if err := log.CreateSpace(context.Background(), "bare", mainstem.Policy{}); err != nil {
		b.Fatal(err)
	}
	return log, create(b, c, "x", Spec{Config: Config{RetentionMs: "-1"}})
}

// compare runs op and base in turns, reports the time of op for each of n items, and
// its ratio to that of base.
func compare(b *testing.B, n int, base, op func() error) {
	b.Helper()
	var ops, bases time.Duration
	rounds := 0
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		err := op()
		middle := time.Now()
		if err := errors.Join(err, base()); err != nil {
			b.Fatal(err)
		}
		ops, bases = ops+middle.Sub(begin), bases+time.Since(middle)
		rounds++
	}
	b.ReportMetric(float64(ops.Nanoseconds())/float64(rounds*n), "ns/op")
	b.ReportMetric(float64(ops)/float64(bases), "x-bare")
}

func values(n, size int) []rec {
	out := make([]rec, n)
	for i := range out {
		out[i] = rec{ms: time.Now().UnixMilli(), key: fmt.Sprint("key", i), value: string(randomBytes(size))}
	}
	return out
}

func BenchmarkAppend(b *testing.B) {
	for _, x := range []struct {
		name    string
		records []rec
	}{
		{"1x1KiB", values(1, 1024)},
		{"100x100B", values(100, 100)},
		{"1000x1KiB", values(1000, 1024)},
	} {
		b.Run(x.name, func(b *testing.B) {
			log, tp := benchTopic(b)
			data := batch(0, x.records...)
			key := []byte("bare")
			w := mainstem.NewBatch()
			compare(b, 1, func() error {
				w.Reset()
				w.Add(mainstem.Write{Space: "bare", Key: key, Value: data, Count: uint32(len(x.records))})
				_, err := log.Commit(context.Background(), w)
				return err
			}, func() error {
				_, err := tp.Append(context.Background(), 0, data)
				return err
			})
		})
	}
}

// BenchmarkVerify checks batches. It reports the ratio of the time to that without decompressing.
func BenchmarkVerify(b *testing.B) {
	for _, x := range []struct{ n, size int }{{1, 100}, {100, 100}, {100, 1024}, {10_000, 100}} {
		for _, codec := range []Codec{Uncompressed, Gzip, Snappy, LZ4, Zstd} {
			b.Run(fmt.Sprintf("%dx%dB/%v", x.n, x.size, codec), func(b *testing.B) {
				records := make([]rec, x.n)
				for i := range records {
					records[i] = rec{ms: 1000 + int64(i), key: fmt.Sprint("key", i), value: prose(x.size)}
				}
				data := batch(codec, records...)
				b.SetBytes(int64(2 * len(data)))
				compare(b, 1, func() error {
					_, err := recordbatch.Verify(data, recordbatch.Check{})
					return err
				}, func() error {
					_, err := recordbatch.Verify(data, recordbatch.Check{Open: true})
					return err
				})
			})
		}
	}
}

// prose returns n bytes of words: text that can be compressed to a third or less.
func prose(n int) string {
	words := strings.Fields("open closed error timeout network switch router severity critical node service alert cleared")
	out := make([]byte, 0, n+16)
	for len(out) < n {
		out = append(append(out, words[rand.IntN(len(words))]...), ' ')
	}
	return string(out[:n])
}

// BenchmarkReadTail reads the newest of small batches, one at a time, as a consumer does that keeps
// up. BenchmarkReadCold reads 64 MiB in pieces of 1 MiB after a restart; its time is for one batch
// of 100 records.
func BenchmarkReadTail(b *testing.B) {
	log, tp := benchTopic(b)
	data := batch(0, values(10, 100)...)
	for range 1000 {
		mustAppend(b, tp, 0, data)
	}
	ctx, key := context.Background(), partition.Key(0)
	buf := make([]byte, 0, 1<<20)
	compare(b, 1, func() error {
		for r, err := range log.Read(ctx, Space("x"), key, mainstem.Versions{From: 9991}) {
			if err != nil {
				return err
			}
			buf = append(buf[:0], r.Value...)
		}
		return nil
	}, func() error {
		c, err := tp.Read(ctx, 0, 9990, &partition.ReadOptions{Buffer: buf[:0]})
		if c.Next != 10_000 {
			b.Error(c.Next)
		}
		return err
	})
}

func BenchmarkReadCold(b *testing.B) {
	dir := b.TempDir()
	reopen := func() (*pebblelog.Log, *Topic) {
		log, err := pebblelog.Open(dir, &pebblelog.Options{Durability: mainstem.OS})
		if err != nil {
			b.Fatal(err)
		}
		c, err := Open(log, &Options{Every: -1})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := errors.Join(c.Close(), log.Close()); err != nil {
				b.Error(err)
			}
		})
		tp, err := c.Ensure(context.Background(), "x", Spec{Config: Config{RetentionMs: "-1"}})
		if err != nil {
			b.Fatal(err)
		}
		return log, tp
	}
	log, tp := reopen()
	data := batch(0, values(100, 100)...)
	count := 64 << 20 / len(data)
	for range count {
		mustAppend(b, tp, 0, data)
	}
	if err := errors.Join(tp.c.Close(), log.Close()); err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	log, tp = reopen()
	buf := make([]byte, 0, 1<<20)
	bare := func() error {
		size := 0
		for r, err := range log.Read(ctx, Space("x"), partition.Key(0), mainstem.Versions{}) {
			if err != nil {
				return err
			}
			if size += len(r.Value); size > 1<<20 {
				buf, size = buf[:0], 0
			}
			buf = append(buf, r.Value...) // a response has to hold them too
		}
		return nil
	}
	b.SetBytes(int64(2 * count * len(data)))
	compare(b, count, bare, func() error {
		for next := int64(0); next < int64(100*count); {
			c, err := tp.Read(ctx, 0, next, &partition.ReadOptions{Buffer: buf[:0], MaxBytes: 1 << 20})
			if err != nil {
				return err
			}
			next = c.Next
		}
		return nil
	})
}

// BenchmarkProduce reports the time of one record of 100 bytes. The base commits the same records
// in batches of the same size that were built before.
func BenchmarkProduce(b *testing.B) {
	for _, codec := range []Codec{Uncompressed, Gzip, Snappy, LZ4, Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			const n = 8000
			log, tp := benchTopic(b)
			p := producer(b, tp, &ProducerOptions{Compression: codec})
			records := make([]Record, n)
			for i, r := range values(n, 100) {
				records[i] = Record{Key: []byte(r.key), Value: []byte(r.value)}
			}
			w, key, ready := mainstem.NewBatch(), []byte("bare"), batch(0, values(n, 100)...)
			compare(b, n, func() error {
				w.Reset()
				w.Add(mainstem.Write{Space: "bare", Key: key, Value: ready, Count: n})
				_, err := log.Commit(context.Background(), w)
				return err
			}, func() error {
				for i := range records {
					p.Produce(context.Background(), records[i], nil)
				}
				return p.Flush(context.Background())
			})
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkProduceSync produces one record at a time and waits for each.
func BenchmarkProduceSync(b *testing.B) {
	_, tp := benchTopic(b)
	p := producer(b, tp, nil)
	defer p.Close()
	value := randomBytes(100)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.ProduceSync(context.Background(), Record{Value: value}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkConsume(b *testing.B) {
	for _, codec := range []Codec{Uncompressed, Gzip, Snappy, LZ4, Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			_, tp := benchTopic(b)
			p := producer(b, tp, &ProducerOptions{Compression: codec})
			const n = 100_000
			for i := range n {
				p.Produce(context.Background(), Record{Key: fmt.Append(nil, i), Value: randomBytes(100)}, nil)
			}
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(100 * n)
			b.ReportAllocs()
			for b.Loop() {
				got := 0
				for _, err := range tp.Consume(context.Background(), nil) {
					if err != nil {
						b.Fatal(err)
					}
					got++
				}
				if got != n {
					b.Fatal(got)
				}
			}
			b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkEndToEnd measures from Append to the return of the waiting reader.
func BenchmarkEndToEnd(b *testing.B) {
	_, tp := benchTopic(b)
	ctx := context.Background()
	w := tp.c.NewWaiter()
	defer w.Close()
	if err := w.Add(ctx, tp, 0); err != nil {
		b.Fatal(err)
	}
	read := make(chan int64)
	go func() {
		defer close(read)
		next := int64(0)
		for w.Wait(ctx) == nil {
			c, err := tp.Read(ctx, 0, next, nil)
			if err != nil {
				return
			}
			if c.Next > next {
				next = c.Next
				if read <- next; next < 0 {
					return
				}
			}
		}
	}()
	data := batch(0, values(1, 100)...)
	for b.Loop() {
		a, err := tp.Append(ctx, 0, data)
		if err != nil {
			b.Fatal(err)
		}
		if got := <-read; got != a.Next {
			b.Fatal(got, a)
		}
	}
	b.StopTimer()
	tp.c.Close()
	for range read {
	}
}

package kafka_test

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

func onDisk(b *testing.B) *broker {
	log, err := pebblelog.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	return serve(b, log, nil, nil)
}

// BenchmarkProduce sends records with franz-go into one partition, as many as it can.
func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{100, 1 << 10} {
		b.Run(fmt.Sprint(size, "B"), func(b *testing.B) {
			br := onDisk(b)
			if _, err := br.topics.Create(b.Context(), "t", spec(1)); err != nil {
				b.Fatal(err)
			}
			cl := br.client(b, kgo.DefaultProduceTopic("t"), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()),
				kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
			value := make([]byte, size)
			var failed atomic.Int64
			b.SetBytes(int64(size))
			b.ResetTimer()
			for range b.N {
				cl.Produce(context.Background(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
					if err != nil {
						failed.Add(1)
					}
				})
			}
			if err := cl.Flush(b.Context()); err != nil || failed.Load() > 0 {
				b.Fatal(err, failed.Load())
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkProduceOne sends one record at a time and waits for it.
func BenchmarkProduceOne(b *testing.B) {
	br := onDisk(b)
	if _, err := br.topics.Create(b.Context(), "t", spec(1)); err != nil {
		b.Fatal(err)
	}
	cl := br.client(b, kgo.DefaultProduceTopic("t"), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := make([]byte, 100)
	for range b.N {
		if err := cl.ProduceSync(b.Context(), &kgo.Record{Value: value}).FirstErr(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProducers sends one record at a time from many clients, with fsync.
func BenchmarkProducers(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			br := onDisk(b)
			if _, err := br.topics.Create(b.Context(), "t", spec(1)); err != nil {
				b.Fatal(err)
			}
			clients := make([]*kgo.Client, n)
			for i := range clients {
				clients[i] = br.client(b, kgo.DefaultProduceTopic("t"), kgo.DisableIdempotentWrite(), kgo.ProducerLinger(0))
			}
			value := make([]byte, 100)
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for _, cl := range clients {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if err := cl.ProduceSync(b.Context(), &kgo.Record{Value: value}).FirstErr(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkEndToEnd produces a record and waits until a consumer has it.
func BenchmarkEndToEnd(b *testing.B) {
	br := onDisk(b)
	if _, err := br.topics.Create(b.Context(), "t", spec(1)); err != nil {
		b.Fatal(err)
	}
	reader := br.client(b, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(5*time.Second))
	writer := br.client(b, kgo.DefaultProduceTopic("t"), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.ProducerLinger(0))
	value := make([]byte, 100)
	for range b.N {
		writer.Produce(b.Context(), &kgo.Record{Value: value}, nil)
		for n := 0; n == 0; {
			fs := reader.PollFetches(b.Context())
			if err := fs.Err(); err != nil {
				b.Fatal(err)
			}
			n = fs.NumRecords()
		}
	}
}

// BenchmarkConsume reads records with franz-go, first those that were just written
// and then, after the log was opened anew, the same from files.
func BenchmarkConsume(b *testing.B) {
	for _, size := range []int{100, 1 << 10} {
		b.Run(fmt.Sprint(size, "B"), func(b *testing.B) {
			dir := b.TempDir()
			log, err := pebblelog.Open(dir, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = log.Close() })
			br := serve(b, log, nil, nil)
			tp, err := br.topics.Create(b.Context(), "t", spec(1))
			if err != nil {
				b.Fatal(err)
			}
			fillTopic(b, tp, 400<<20/size/4, size)
			b.SetBytes(int64(size))
			b.ResetTimer()
			for read := 0; read < b.N; {
				cl := br.client(b, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
				for n := 0; n < 400<<20/size/4 && read < b.N; {
					got := cl.PollFetches(b.Context()).NumRecords()
					n += got
					read += got
				}
				cl.Close()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func fillTopic(b *testing.B, tp *topic.Topic, n, size int) {
	p, err := tp.Producer(&topic.ProducerOptions{Durability: mainstem.OS})
	if err != nil {
		b.Fatal(err)
	}
	value := make([]byte, size)
	for range n {
		_, _ = crand.Read(value[:16])
		p.Produce(b.Context(), topic.Record{Value: value}, nil)
	}
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkProduceCompressed sends compressed records with franz-go. "checking" is the share of
// the time that one processor spends on decompressing and checking them, which the server does
// once. It is measured afterwards, with the batches that the client has sent.
func BenchmarkProduceCompressed(b *testing.B) {
	for _, codec := range []struct {
		name string
		of   kgo.CompressionCodec
	}{{"gzip", kgo.GzipCompression()}, {"snappy", kgo.SnappyCompression()}, {"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()}} {
		for _, size := range []int{100, 1 << 10} {
			b.Run(fmt.Sprintf("%s/%dB", codec.name, size), func(b *testing.B) {
				br := onDisk(b)
				tp, err := br.topics.Create(b.Context(), "t", spec(1))
				if err != nil {
					b.Fatal(err)
				}
				cl := br.client(b, kgo.DefaultProduceTopic("t"), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()),
					kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchCompression(codec.of))
				values := make([][]byte, 1000)
				for i := range values {
					values[i] = prose(size)
				}
				b.ResetTimer()
				for i := range b.N {
					cl.Produce(context.Background(), &kgo.Record{Value: values[i%len(values)]}, func(_ *kgo.Record, err error) {
						if err != nil {
							b.Error(err)
						}
					})
				}
				if err := cl.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
				b.ReportMetric(float64(checking(b, tp))/float64(b.Elapsed()), "checking")
			})
		}
	}
}

// checking returns the time to check the batches of a topic, without the time for their
// checksums.
func checking(b *testing.B, tp *topic.Topic) time.Duration {
	b.Helper()
	var took time.Duration
	for next := int64(0); ; {
		chunk, err := tp.Read(b.Context(), 0, next, &partition.ReadOptions{MaxBytes: 8 << 20})
		if err != nil {
			b.Fatal(err)
		}
		if chunk.Next == next {
			return took
		}
		next = chunk.Next
		for data := chunk.Data; len(data) > 0; {
			n := 12 + int(binary.BigEndian.Uint32(data[8:])) // what the length field does not count
			begin := time.Now()
			_, err := recordbatch.Verify(data[:n], recordbatch.Check{Open: true})
			middle := time.Now()
			if _, plain := recordbatch.Verify(data[:n], recordbatch.Check{}); err != nil || plain != nil {
				b.Fatal(err, plain)
			}
			took += middle.Sub(begin) - time.Since(middle)
			data = data[n:]
		}
	}
}

// prose returns n bytes of words: text that can be compressed to a third or less.
func prose(n int) []byte {
	words := strings.Fields("open closed error timeout network switch router severity critical node service alert cleared")
	out := make([]byte, 0, n+16)
	for len(out) < n {
		out = append(append(out, words[rand.IntN(len(words))]...), ' ')
	}
	return out[:n]
}

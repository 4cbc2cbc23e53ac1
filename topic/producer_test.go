package topic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

func producer(t testing.TB, tp *Topic, o *ProducerOptions) *Producer {
	t.Helper()
	p, err := tp.Producer(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// All records of many goroutines are stored, with every codec, in the partitions of their keys,
// those of each goroutine in order.
func TestProduce(t *testing.T) {
	for _, codec := range []Codec{Uncompressed, Gzip, Snappy, LZ4, Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			testengines.Each(t, func(t *testing.T, log mainstem.Log) {
				c := open(t, log, nil)
				tp := create(t, c, "x", Spec{Partitions: 5})
				p := producer(t, tp, &ProducerOptions{Compression: codec, BatchBytes: 2000, BufferBytes: 20_000})
				const goroutines, each = 8, 200
				var wg sync.WaitGroup
				var mu sync.Mutex
				sent := map[string]Sent{}
				for g := range goroutines {
					wg.Go(func() {
						for i := range each {
							name := fmt.Sprintf("%d-%04d", g, i)
							r := Record{Key: []byte(fmt.Sprint(g)), Value: []byte(name + strings.Repeat("x", i)), Headers: []Header{{Key: "h", Value: []byte(name)}}}
							p.Produce(t.Context(), r, func(s Sent, err error) {
								if err != nil {
									t.Error(err)
								}
								mu.Lock()
								defer mu.Unlock()
								sent[name] = s
							})
							clear(r.Value) // it was copied
						}
					})
				}
				wg.Wait()
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				if len(sent) != goroutines*each {
					t.Fatalf("%d of %d promises were kept", len(sent), goroutines*each)
				}
				last := map[string]string{}
				n := 0
				for num, rs := range all(t, tp, nil) {
					for _, r := range rs {
						n++
						name := string(r.Headers[0].Value)
						if sent[name] != (Sent{num, r.Offset}) || KeyPartition(r.Key, 5) != num {
							t.Errorf("%s was sent to %v, found at %d/%d", name, sent[name], num, r.Offset)
						}
						if last[string(r.Key)] >= name {
							t.Errorf("%s comes after %s", name, last[string(r.Key)])
						}
						if last[string(r.Key)] = name; !bytes.HasPrefix(r.Value, []byte(name)) {
							t.Errorf("the value of %s is %.20q", name, r.Value)
						}
					}
				}
				if n != goroutines*each {
					t.Errorf("%d records arrived of %d", n, goroutines*each)
				}
			})
		})
	}
}

// batchesOf returns how many record batches the partitions hold.
func batchesOf(t *testing.T, log mainstem.Log, tp *Topic) (n int) {
	t.Helper()
	for p := range tp.Partitions() {
		for _, err := range log.Read(context.Background(), tp.space, partition.Key(p), mainstem.Versions{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	return n
}

func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		c, err := Open(log, &Options{Every: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		tp := create(t, c, "x", Spec{})
		p := producer(t, tp, &ProducerOptions{Linger: 50 * time.Millisecond})
		begin := time.Now()
		var done []time.Duration
		for range 5 {
			p.Produce(t.Context(), Record{Value: []byte("v")}, func(Sent, error) { done = append(done, time.Since(begin)) })
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if len(done) != 5 || done[0] != 50*time.Millisecond || batchesOf(t, log, tp) != 1 {
			t.Errorf("acknowledged after %v in %d batches, want 5 after 50ms in one", done, batchesOf(t, log, tp))
		}
		// Neither Flush nor ProduceSync lingers.
		begin = time.Now()
		p.Produce(t.Context(), Record{Value: []byte("v")}, nil)
		if err := p.Flush(t.Context()); err != nil || time.Since(begin) != 0 {
			t.Errorf("flushed after %v, %v", time.Since(begin), err)
		}
		if _, err := p.ProduceSync(t.Context(), Record{Value: []byte("v")}); err != nil || time.Since(begin) != 0 {
			t.Errorf("produced after %v, %v", time.Since(begin), err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Records without key fill one batch after the other, not one batch for each partition.
func TestStickyPartition(t *testing.T) {
	log := model.New(nil)
	defer log.Close()
	c := open(t, log, nil)
	tp := create(t, c, "x", Spec{Partitions: 10})
	p := producer(t, tp, &ProducerOptions{Linger: time.Hour, BatchBytes: 1000})
	for range 100 {
		p.Produce(t.Context(), Record{Value: make([]byte, 90)}, nil)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if n := batchesOf(t, log, tp); n < 10 || n > 13 {
		t.Errorf("100 records of 90 bytes are in %d batches of 1000 bytes", n)
	}
	if used := len(all(t, tp, nil)); used < 2 {
		t.Errorf("all went to %d partition", used)
	}
}

func TestProduceRefuses(t *testing.T) {
	ck := &testkit.Clock{}
	c := open(t, testengines.Memory(t), &Options{Now: ck.Now})
	tp := create(t, c, "x", Spec{Partitions: 2, Config: Config{MaxMessageBytes: "500", CleanupPolicy: "compact"}})
	p := producer(t, tp, &ProducerOptions{Partitioner: ByPartition(), Compression: Gzip})
	key := []byte("k")
	for _, x := range []struct {
		name   string
		r      Record
		reason recordbatch.Reason
	}{
		{"no key", Record{Value: key}, recordbatch.BadRecord},
		{"too large", Record{Key: key, Value: randomBytes(600)}, recordbatch.TooLarge},
		{"far future", Record{Key: key, Time: ck.Now().Add(2 * time.Hour)}, recordbatch.BadTimestamp},
	} {
		_, err := p.ProduceSync(t.Context(), x.r)
		var why *recordbatch.Error
		if !errors.Is(err, mainstem.ErrInvalid) || !errors.As(err, &why) || why.Reason != x.reason {
			t.Errorf("%s: %v", x.name, err)
		}
		if err := p.Flush(t.Context()); !errors.As(err, &why) {
			t.Errorf("flush after %s: %v", x.name, err)
		}
	}
	// A large record that compresses well enough is accepted.
	if _, err := p.ProduceSync(t.Context(), Record{Key: key, Value: make([]byte, 5000), Partition: 1}); err != nil {
		t.Error(err)
	}
	if _, err := p.ProduceSync(t.Context(), Record{Key: key, Partition: 2}); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("partition 2 of 2: %v", err)
	}
	p.Flush(t.Context())
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.ProduceSync(t.Context(), Record{Key: key}); !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("a closed producer: %v", err)
	}
	if err := c.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := tp.Producer(nil); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("a deleted topic: %v", err)
	}
	other := create(t, c, "y", Spec{})
	for _, o := range []ProducerOptions{{Linger: -1}, {BatchBytes: -1}, {BufferBytes: -1}, {Compression: 5}} {
		if _, err := other.Producer(&o); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func randomBytes(n int) []byte {
	out := make([]byte, n)
	x := uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

// slowLog holds commits back until they may go on, or makes them fail.
type slowLog struct {
	mainstem.Log
	gate chan error
}

func (l *slowLog) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if b.Durability == mainstem.Fsync { // what the producer of the test asks for
		if err := <-l.gate; err != nil {
			return mainstem.Receipt{}, err
		}
	}
	return l.Log.Commit(ctx, b)
}

// While a commit is under way, Produce returns at once until the buffer is full. Then it waits, at
// most until its context ends. A failed commit fails its own records only.
func TestProducerBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := model.New(nil)
		defer m.Close()
		log := &slowLog{m, make(chan error)}
		c, err := Open(log, &Options{Every: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		tp := create(t, c, "x", Spec{})
		p := producer(t, tp, &ProducerOptions{BufferBytes: 1000, Durability: mainstem.Fsync})
		var results []error
		r := Record{Value: make([]byte, 300)}
		produce := func(ctx context.Context) {
			p.Produce(ctx, r, func(_ Sent, err error) { results = append(results, err) })
			synctest.Wait()
		}
		produce(t.Context()) // its commit is held back
		produce(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		produce(ctx) // fills the buffer: three records take more than 1,000 bytes
		if len(results) != 1 || !errors.Is(results[0], mainstem.ErrCanceled) {
			t.Fatalf("with a full buffer: %v", results)
		}
		boom := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown}
		log.gate <- boom
		synctest.Wait()
		if len(results) != 2 || !errors.Is(results[1], mainstem.ErrUnknownOutcome) {
			t.Fatalf("after a failed commit: %v", results)
		}
		go func() { log.gate <- nil; log.gate <- nil }()
		produce(t.Context())
		if err := p.Close(); !errors.Is(err, mainstem.ErrCanceled) {
			t.Errorf("close returns the first error, not %v", err)
		}
		if len(results) != 4 || results[2] != nil || results[3] != nil {
			t.Errorf("%v", results)
		}
		if end, err := tp.End(t.Context(), 0); end != 2 || err != nil {
			t.Errorf("end %d, %v", end, err)
		}
	})
}

// If the batches of one commit fail for different reasons, Flush returns the first error.
func TestFlushReturnsTheFirstErrorOfACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := model.New(nil)
		defer m.Close()
		log := &slowLog{m, make(chan error)}
		c, err := Open(log, &Options{Every: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		tp := create(t, c, "x", Spec{Partitions: 2, Config: Config{MaxMessageBytes: "500"}})
		p := producer(t, tp, &ProducerOptions{Partitioner: ByPartition(), Durability: mainstem.Fsync})
		p.Produce(t.Context(), Record{Value: []byte("v")}, nil)
		synctest.Wait() // its commit is held back, so the next two share one
		p.Produce(t.Context(), Record{Value: randomBytes(600)}, nil)
		p.Produce(t.Context(), Record{Value: []byte("v"), Partition: 1}, nil)
		log.gate <- nil
		log.gate <- &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.NotWritten}
		var why *recordbatch.Error
		if err := p.Flush(t.Context()); !errors.As(err, &why) || why.Reason != recordbatch.TooLarge {
			t.Errorf("flush: %v, want that the first record is too large", err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A record that is larger than the whole buffer is accepted when the buffer is empty.
func TestProduceLargerThanBuffer(t *testing.T) {
	c := open(t, testengines.Memory(t), nil)
	tp := create(t, c, "x", Spec{})
	p := producer(t, tp, &ProducerOptions{BufferBytes: 10})
	defer p.Close()
	for range 3 {
		if _, err := p.ProduceSync(t.Context(), Record{Value: make([]byte, 10_000)}); err != nil {
			t.Fatal(err)
		}
	}
}

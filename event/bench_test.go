package event_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
)

// The workloads are those of the benchmark suite that event stores in Go are
// compared with: the same payloads, a new stream for each append, the same mixes.
//
// Each benchmark reports x-bare: its time divided by the time of the same records
// committed to, or read from, a log of the same kind without the event store, in the
// same run, the two taking turns.

// small is 61 bytes of JSON.
var small = event.Event{Type: "OrderCreated", Data: []byte(`{"orderId":"order-123","customerId":"cust-456","total":99.99}`)}

var withMetadata = func() event.Event {
	ev := small
	ev.Metadata = event.Metadata{
		CorrelationID: "corr-7f9c2ba4", CausationID: "cause-19d4e8b2", UserID: "user-42", TenantID: "tenant-7",
		Custom: map[string]string{"source": "web", "$schema_version": "1", "request_id": "req-5d41402a"},
	}
	return ev
}()

func batchOf(n int) []event.Event {
	evs := make([]event.Event, n)
	for i := range evs {
		evs[i] = event.Event{Type: "OrderEvent", Data: fmt.Appendf(nil, `{"orderId":"order-%d","seq":%d,"total":%d.5}`, i, i, i*10)}
	}
	return evs
}

var benchEngines = []struct {
	name string
	open func(b *testing.B) (mainstem.Log, error)
}{
	{"memory", func(b *testing.B) (mainstem.Log, error) { return pebblelog.OpenMemory(nil) }},
	{"dir,os", func(b *testing.B) (mainstem.Log, error) {
		return pebblelog.Open(b.TempDir(), &pebblelog.Options{Durability: mainstem.OS})
	}},
	{"dir,fsync", func(b *testing.B) (mainstem.Log, error) { return pebblelog.Open(b.TempDir(), nil) }},
}

// bench is a store, and a log of the same kind for the bare half.
type bench struct {
	*testing.B
	s    *event.Store
	log  mainstem.Log
	bare mainstem.Log
}

// onEach runs body on each engine; with few, not on the slow one.
func onEach(b *testing.B, fsync bool, body func(b *bench)) {
	for _, e := range benchEngines {
		if e.name == "dir,fsync" && !fsync {
			continue
		}
		b.Run(e.name, func(b *testing.B) {
			x := &bench{B: b}
			for _, log := range []*mainstem.Log{&x.log, &x.bare} {
				l, err := e.open(b)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { l.Close() })
				*log = l
			}
			x.s = open(b, x.log, nil)
			if err := x.bare.CreateSpace(b.Context(), "bare", mainstem.Policy{}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			body(x)
		})
	}
}

// turns runs view for each of b.N operations, timed, in turns with bare, and
// reports the ratio. Items is what one operation does, for items/s.
func (b *bench) turns(items int, view, bare func(i int)) {
	const turn = 256
	var bareTime time.Duration
	b.ResetTimer()
	for i := 0; i < b.N; i += turn {
		end := min(i+turn, b.N)
		for j := i; j < end; j++ {
			view(j)
		}
		b.StopTimer()
		start := time.Now()
		for j := i; j < end; j++ {
			bare(j)
		}
		bareTime += time.Since(start)
		b.StartTimer()
	}
	b.StopTimer()
	b.report(items, bareTime)
}

func (b *bench) report(items int, bareTime time.Duration) {
	b.ReportMetric(b.Elapsed().Seconds()/bareTime.Seconds(), "x-bare")
	b.ReportMetric(float64(items)*float64(b.N)/b.Elapsed().Seconds(), "items/s")
}

func (b *bench) must(err error) {
	if err != nil {
		b.Helper()
		b.Error(err)
		b.FailNow()
	}
}

// bareWriter commits evs to a key as the event store does, prepared beforehand.
type bareWriter struct {
	b      *bench
	batch  mainstem.Batch
	writes []mainstem.Write
}

func (b *bench) bareWriter(evs []event.Event) *bareWriter {
	// The store itself says what it writes.
	batch := mainstem.NewBatch()
	b.s.AppendTo(batch, "x", event.AnyVersion, evs)
	w := &bareWriter{b: b}
	for _, wr := range batch.Writes() {
		wr.Space = "bare"
		w.writes = append(w.writes, wr)
	}
	return w
}

func (w *bareWriter) commit(key string) {
	k := []byte(key)
	w.batch.Reset()
	for i := range w.writes {
		w.writes[i].Key = k
		w.batch.Add(w.writes[i])
	}
	_, err := w.b.bare.Commit(context.Background(), &w.batch)
	w.b.must(err)
}

func (b *bench) write(stream string, expected event.Expected, evs []event.Event) {
	_, err := b.s.Append(context.Background(), stream, expected, evs)
	b.must(err)
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name  string
		evs   []event.Event
		fsync bool
	}{
		{"SingleEvent", []event.Event{small}, true},
		{"BatchOf10", batchOf(10), false},
		{"BatchOf100", batchOf(100), true},
		{"WithMetadata", []event.Event{withMetadata}, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			onEach(b, c.fsync, func(b *bench) {
				w := b.bareWriter(c.evs)
				b.turns(len(c.evs),
					func(i int) { b.write("bench-"+strconv.Itoa(i), event.AnyVersion, c.evs) },
					func(i int) { w.commit("bench-" + strconv.Itoa(i)) })
			})
		})
	}
	b.Run("WithConcurrencyCheck", func(b *testing.B) {
		onEach(b, false, func(b *bench) {
			evs := []event.Event{small}
			w := b.bareWriter(evs)
			for i := range b.N {
				b.write("bench-"+strconv.Itoa(i), event.NoStream, evs)
				w.commit("bench-" + strconv.Itoa(i))
			}
			b.turns(1,
				func(i int) { b.write("bench-"+strconv.Itoa(i), 1, evs) },
				func(i int) { w.commit("bench-" + strconv.Itoa(i)) })
		})
	})
	b.Run("WithSeals", func(b *testing.B) { // in a store in which a stream was archived
		onEach(b, false, func(b *bench) {
			evs := []event.Event{small}
			b.write("archived-1", event.NoStream, evs)
			do(b.B, b.s, func(batch *mainstem.Batch) { b.s.ArchiveTo(batch, "archived-1") })
			w := b.bareWriter(evs)
			b.turns(1,
				func(i int) { b.write("bench-"+strconv.Itoa(i), event.AnyVersion, evs) },
				func(i int) { w.commit("bench-" + strconv.Itoa(i)) })
		})
	})
	b.Run("ControlCondition", func(b *testing.B) { // what the condition on the control record of the store costs
		onEach(b, false, func(b *bench) {
			evs := []event.Event{small}
			commit := func(log mainstem.Log, i int, inline bool) {
				batch := mainstem.NewBatch()
				b.s.AppendTo(batch, "bench-"+strconv.Itoa(i), event.AnyVersion, evs)
				without := mainstem.NewBatch()
				without.Ensure(b.s.Space(), mainstem.Policy{})
				for _, c := range batch.Conditions() {
					if inline || !strings.HasPrefix(c.Space, "event.tag/") && !strings.HasPrefix(c.Space, "event.inline/") {
						without.If(c)
					}
				}
				for _, w := range batch.Writes() {
					without.Add(w)
				}
				_, err := log.Commit(context.Background(), without)
				b.must(err)
			}
			b.turns(1, func(i int) { commit(b.log, i, true) }, func(i int) { commit(b.bare, i, false) })
		})
	})
	b.Run("WithIDs", func(b *testing.B) { // what idempotence costs
		onEach(b, false, func(b *bench) {
			w := b.bareWriter([]event.Event{small})
			b.turns(1,
				func(i int) {
					ev := small
					ev.ID = event.NewID()
					b.write("bench-"+strconv.Itoa(i), event.AnyVersion, []event.Event{ev})
				},
				func(i int) { w.commit("bench-" + strconv.Itoa(i)) })
		})
	})
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(strconv.Itoa(n)+"Events", func(b *testing.B) {
			onEach(b, false, func(b *bench) {
				b.write("bench-1", event.NoStream, batchOf(n))
				b.bareWriter(batchOf(n)).commit("bench-1")
				b.turns(n, func(int) { b.load("bench-1", n) }, func(int) { b.bareRead("bench-1", n) })
			})
		})
	}
}

func (b *bench) load(stream string, want int) {
	evs, err := b.s.Load(context.Background(), stream, nil)
	b.must(err)
	if len(evs) != want {
		b.Fatalf("%d events: want %d", len(evs), want)
	}
}

func (b *bench) bareRead(key string, want int) {
	n := 0
	for _, err := range b.bare.Read(context.Background(), "bare", []byte(key), mainstem.Versions{}) {
		b.must(err)
		n++
	}
	if n != want {
		b.Fatalf("%d records: want %d", n, want)
	}
}

// together runs op b.N times on so many goroutines and returns how long it took.
func (b *bench) together(workers int, op func(worker, i int)) time.Duration {
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for w := range workers {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
				op(w, i)
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func BenchmarkConcurrent(b *testing.B) {
	for _, workers := range []int{8, 32} {
		b.Run(fmt.Sprintf("Append_%dWorkers", workers), func(b *testing.B) {
			onEach(b, true, func(b *bench) {
				evs := []event.Event{small}
				bare := make([]*bareWriter, workers)
				for i := range bare {
					bare[i] = b.bareWriter(evs)
				}
				b.ResetTimer()
				b.together(workers, func(_, i int) { b.write("bench-"+strconv.Itoa(i), event.AnyVersion, evs) })
				b.StopTimer()
				b.report(1, b.together(workers, func(w, i int) { bare[w].commit("bench-" + strconv.Itoa(i)) }))
			})
		})
	}
}

func BenchmarkMixed(b *testing.B) {
	for name, reads := range map[string]int{"ReadHeavy_80_20": 80, "WriteHeavy_20_80": 20} {
		b.Run(name, func(b *testing.B) {
			onEach(b, false, func(b *bench) {
				const workers = 2
				evs := []event.Event{small}
				bare := make([]*bareWriter, workers)
				for i := range bare {
					bare[i] = b.bareWriter(evs)
				}
				seed := b.bareWriter(batchOf(10))
				for i := range 100 {
					b.write("seed-"+strconv.Itoa(i), event.NoStream, batchOf(10))
					seed.commit("seed-" + strconv.Itoa(i))
				}
				b.ResetTimer()
				b.together(workers, func(_, i int) {
					if rand.IntN(100) < reads {
						b.load("seed-"+strconv.Itoa(rand.IntN(100)), 10)
					} else {
						b.write("bench-"+strconv.Itoa(i), event.AnyVersion, evs)
					}
				})
				b.StopTimer()
				b.report(1, b.together(workers, func(w, i int) {
					if rand.IntN(100) < reads {
						b.bareRead("seed-"+strconv.Itoa(rand.IntN(100)), 10)
					} else {
						bare[w].commit("bench-" + strconv.Itoa(i))
					}
				}))
			})
		})
	}
}

func BenchmarkStreamOps(b *testing.B) {
	ctx := context.Background()
	b.Run("GetStreamInfo", func(b *testing.B) {
		onEach(b, false, func(b *bench) {
			b.write("bench-1", event.NoStream, batchOf(50))
			b.bareWriter(batchOf(50)).commit("bench-1")
			b.turns(1,
				func(int) {
					in, err := b.s.StreamInfo(ctx, "bench-1")
					b.must(err)
					if in.Count != 50 {
						b.Fatal(in)
					}
				},
				func(int) {
					_, err := b.bare.Get(ctx, "bare", []byte("bench-1"))
					b.must(err)
				})
		})
	})
	b.Run("GetLastPosition", func(b *testing.B) {
		onEach(b, false, func(b *bench) {
			b.write("bench-1", event.NoStream, batchOf(50))
			b.turns(1,
				func(int) { _, err := b.s.LastPosition(ctx); b.must(err) },
				func(int) { _, err := b.bare.Space(ctx, "bare"); b.must(err) })
		})
	})
}

func BenchmarkFeed(b *testing.B) {
	const n = 10_000
	onEach(b, false, func(b *bench) {
		w := b.bareWriter(batchOf(10))
		for i := range n / 10 {
			b.write("bench-"+strconv.Itoa(i), event.AnyVersion, batchOf(10))
			w.commit("bench-" + strconv.Itoa(i))
		}
		b.turns(n,
			func(int) {
				seen := 0
				for _, err := range b.s.Feed(context.Background(), nil) {
					b.must(err)
					seen++
				}
				if seen != n {
					b.Fatal(seen)
				}
			},
			func(int) {
				for _, err := range b.bare.Feed(context.Background(), mainstem.Filter{Spaces: []string{"bare"}}) {
					b.must(err)
				}
			})
	})
}

// BenchmarkSubscribe measures how fast a subscription catches up, each event
// written to a table with the checkpoint, against commits of that size; and how long
// an event takes from Write to its handler.
func BenchmarkSubscribe(b *testing.B) {
	for _, maxBatch := range []int{1, 100} {
		b.Run(fmt.Sprintf("CatchUp_%d", maxBatch), func(b *testing.B) {
			onEach(b, false, func(b *bench) {
				for i := 0; i < b.N; i += 100 {
					b.write("bench-"+strconv.Itoa(i%1000), event.AnyVersion, batchOf(100))
				}
				b.ResetTimer()
				sub, err := b.s.Subscribe(b.Context(), "bench", &event.SubscribeOptions{MaxBatch: maxBatch}, func(_ context.Context, batch *mainstem.Batch, ev event.Recorded) error {
					batch.Ensure("table", mainstem.Policy{History: 1})
					batch.Put("table", []byte(ev.Stream), ev.Data)
					return nil
				})
				b.must(err)
				<-sub.CaughtUp()
				b.StopTimer()
				b.must(sub.Close())
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
			})
		})
	}
	b.Run("Latency", func(b *testing.B) {
		onEach(b, false, func(b *bench) {
			handled := make(chan time.Time)
			sub, err := b.s.Subscribe(b.Context(), "bench", nil, func(context.Context, *mainstem.Batch, event.Recorded) error {
				handled <- time.Now()
				return nil
			})
			b.must(err)
			<-sub.CaughtUp()
			var total time.Duration
			evs := []event.Event{small}
			b.ResetTimer()
			for i := range b.N {
				b.write("bench-"+strconv.Itoa(i), event.AnyVersion, evs)
				start := time.Now()
				total += max((<-handled).Sub(start), 0)
			}
			b.StopTimer()
			b.must(sub.Close())
			b.ReportMetric(float64(total.Nanoseconds())/float64(b.N), "ns-behind")
		})
	})
}

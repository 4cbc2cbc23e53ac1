package natskv_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/kv"
)

const (
	benchTables = 100
	benchKeys   = 1000
	benchLarge  = 1 << 20
)

// BenchmarkAgainstKeyValue runs each workload on the KeyValue API of nats.go and on
// this package by turns, against the same server in the same process, over
// TCP. It reports the median and the 99th percentile of both in microseconds, their
// allocations, the server's included, and the ratio of the medians.
func BenchmarkAgainstKeyValue(b *testing.B) {
	r := newRace(b)
	b.Run("Set", func(b *testing.B) {
		r.run(b, 1, func(i int) { r.plainPut(b, fmt.Sprintf("key-%d", i), r.small(i)) },
			func(i int) { r.put(b, fmt.Sprintf("key-%d", i), r.small(i)) })
	})
	b.Run("SetGet", func(b *testing.B) {
		r.run(b, 1, func(i int) { k := fmt.Sprintf("key-%d", i); r.plainPut(b, k, r.small(i)); r.plainGet(b, k) },
			func(i int) { k := fmt.Sprintf("key-%d", i); r.put(b, k, r.small(i)); r.get(b, r.ours, k) })
	})
	r.plainPut(b, "test-key", []byte("test-value"))
	r.put(b, "test-key", []byte("test-value"))
	b.Run("Get", func(b *testing.B) {
		r.run(b, 1, func(int) { r.plainGet(b, "test-key") }, func(int) { r.get(b, r.ours, "test-key") })
	})
	b.Run("GetCached", func(b *testing.B) {
		r.run(b, 20, func(int) { r.plainGet(b, "test-key") }, func(int) { r.get(b, r.cached, "test-key") })
	})
	b.Run("List1000", func(b *testing.B) {
		r.fill(b)
		r.run(b, 1, func(int) { r.plainList(b) }, func(int) { r.list(b, nil, benchKeys) })
	})
	b.Run("Page100", func(b *testing.B) {
		r.fill(b)
		r.run(b, 1, func(int) { _ = r.plainList(b)[100:200] }, func(int) { r.list(b, &kv.Query{Offset: 100, Limit: 100}, 100) })
	})
	b.Run("PutMany100", func(b *testing.B) { r.putMany(b) })
	b.Run("GetMany100", func(b *testing.B) { r.getMany(b) })
	b.Run("SetLarge", func(b *testing.B) {
		r.run(b, 1, func(i int) { r.plainPut(b, fmt.Sprintf("large-%d", i), r.large) },
			func(i int) { r.put(b, fmt.Sprintf("large-%d", i), r.large) })
	})
	r.plainPut(b, "large", r.large)
	r.put(b, "large", r.large)
	b.Run("GetLarge", func(b *testing.B) {
		r.run(b, 1, func(int) { r.plainGet(b, "large") }, func(int) { r.get(b, r.ours, "large") })
	})
	b.Run("SetGetLarge", func(b *testing.B) {
		r.run(b, 1, func(i int) { k := fmt.Sprintf("large-%d", i); r.plainPut(b, k, r.large); r.plainGet(b, k) },
			func(i int) { k := fmt.Sprintf("large-%d", i); r.put(b, k, r.large); r.get(b, r.ours, k) })
	})
	b.Run("DeleteLarge", func(b *testing.B) {
		r.run(b, 1, func(i int) {
			k := fmt.Sprintf("large-%d", i)
			r.plainPut(b, k, r.large)
			noError(b, r.plain.Purge(r.ctx, k))
		}, func(i int) {
			k := fmt.Sprintf("large-%d", i)
			r.put(b, k, r.large)
			noError(b, r.ours.Purge(r.ctx, k))
		})
	})
}

// race is one server with both clients, each on a connection of its own.
type race struct {
	ctx    context.Context
	url    string
	js     jetstream.JetStream
	store  *natskv.Store
	plain  jetstream.KeyValue
	ours   *natskv.Bucket[[]byte]
	cached *natskv.Bucket[[]byte]
	large  []byte
	filled bool
}

func newRace(b *testing.B) *race {
	srv := testnats.NewServer(b, &testnats.Options{MaxPayload: 8 << 20})
	r := &race{ctx: b.Context(), url: srv.URL(), js: js(b, srv.URL()), store: open(b, srv.URL(), nil)}
	r.plain = must[jetstream.KeyValue](b)(r.js.CreateKeyValue(r.ctx, jetstream.KeyValueConfig{Bucket: "plain"}))
	r.ours = table[[]byte](b, r.store, "ours", nil)
	// In a bucket of its own: its index follows every write, which the plain bucket has nobody for.
	r.cached = table[[]byte](b, open(b, srv.URL(), &natskv.Options{CacheBytes: 64 << 20}), "cached", nil)
	must[kv.Revision](b)(r.cached.Put(r.ctx, "test-key", []byte("test-value")))
	r.large = make([]byte, benchLarge)
	for i := range r.large {
		r.large[i] = byte(i)
	}
	return r
}

func (r *race) small(i int) []byte { return fmt.Appendf(nil, "value-%d", i) }

func (r *race) plainPut(b *testing.B, key string, value []byte) {
	if _, err := r.plain.Put(r.ctx, key, value); err != nil {
		b.Fatal(err)
	}
}

func (r *race) plainGet(b *testing.B, key string) {
	if _, err := r.plain.Get(r.ctx, key); err != nil {
		b.Fatal(err)
	}
}

func (r *race) put(b *testing.B, key string, value []byte) {
	if _, err := r.ours.Put(r.ctx, key, value); err != nil {
		b.Fatal(err)
	}
}

func (r *race) get(b *testing.B, from *natskv.Bucket[[]byte], key string) {
	if _, err := from.Get(r.ctx, key); err != nil {
		b.Fatal(err)
	}
}

// fill makes the tables and lists each once, so that their indexes run.
func (r *race) fill(b *testing.B) {
	if r.filled {
		return
	}
	r.filled = true
	for t := range benchTables {
		pairs := make([]kv.Pair[[]byte], benchKeys)
		for i := range pairs {
			pairs[i] = kv.Pair[[]byte]{Key: fmt.Sprintf("key-%d", i), Value: r.small(i)}
		}
		bucket := table[[]byte](b, r.store, fmt.Sprintf("table-%d", t), nil)
		must[[]kv.Revision](b)(bucket.PutMany(r.ctx, pairs))
		must[int64](b)(bucket.Count(r.ctx, nil))
	}
	b.ResetTimer()
}

func (r *race) plainList(b *testing.B) []string {
	bucket := must[jetstream.KeyValue](b)(r.js.KeyValue(r.ctx, fmt.Sprintf("table-%d", rand.IntN(benchTables))))
	keys := must[[]string](b)(bucket.Keys(r.ctx))
	if len(keys) != benchKeys {
		b.Fatalf("%d keys; want %d", len(keys), benchKeys)
	}
	return keys
}

func (r *race) list(b *testing.B, q *kv.Query, want int) {
	bucket := table[[]byte](b, r.store, fmt.Sprintf("table-%d", rand.IntN(benchTables)), nil)
	keys := make([]string, 0, want)
	for k, err := range bucket.Keys(r.ctx, q) {
		if err != nil {
			b.Fatal(err)
		}
		keys = append(keys, k)
	}
	if len(keys) != want {
		b.Fatalf("%d keys; want %d", len(keys), want)
	}
}

// putMany compares a key of PutMany with a Put.
func (r *race) putMany(b *testing.B) {
	pairs := make([]kv.Pair[[]byte], 100)
	n := 0
	many := func(int) {
		for i := range pairs {
			pairs[i] = kv.Pair[[]byte]{Key: fmt.Sprintf("many-%d", n), Value: r.small(n)}
			n++
		}
		_, err := r.ours.PutMany(r.ctx, pairs)
		noError(b, err)
	}
	r.runPer(b, 100, 1, 100, func(i int) { r.plainPut(b, fmt.Sprintf("many-%d", i), r.small(i)) }, many)
}

// getMany compares a key of GetMany with a Get.
func (r *race) getMany(b *testing.B) {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
		r.put(b, keys[i], r.small(i))
	}
	b.ResetTimer()
	r.runPer(b, 100, 1, 100, func(int) { r.plainGet(b, "test-key") }, func(int) {
		_, err := r.ours.GetMany(r.ctx, keys...)
		noError(b, err)
	})
}

// run compares one operation with one.
func (r *race) run(b *testing.B, each int, plain, ours func(i int)) {
	r.runPer(b, each, each, 1, plain, ours)
}

// runPer times plain and ours by turns, eachPlain and eachOurs calls at a time, where a
// call of ours does the work of per.
func (r *race) runPer(b *testing.B, eachPlain, eachOurs, per int, plain, ours func(i int)) {
	var a, o []time.Duration
	n := 0
	sample := func(f func(int), each, per int) time.Duration {
		start := time.Now()
		for i := range each {
			f(n + i)
		}
		return time.Since(start) / time.Duration(each*per)
	}
	var plainAllocs, oursAllocs uint64
	for turn := 0; b.Loop(); turn++ {
		if turn%2 == 0 { // who comes second pays for some of what the first has left behind
			a = append(a, sample(plain, eachPlain, 1))
		}
		o = append(o, sample(ours, eachOurs, per))
		if turn%2 == 1 {
			a = append(a, sample(plain, eachPlain, 1))
		}
		n += max(eachPlain, eachOurs)
	}
	plainAllocs = allocs(func() { plain(n) })
	oursAllocs = allocs(func() { ours(n) }) / uint64(per)
	slices.Sort(a)
	slices.Sort(o)
	micros := func(d []time.Duration, p int) float64 { return float64(d[(len(d)-1)*p/100].Nanoseconds()) / 1e3 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros(a, 50), "plain-p50-µs")
	b.ReportMetric(micros(o, 50), "ours-p50-µs")
	b.ReportMetric(micros(a, 99), "plain-p99-µs")
	b.ReportMetric(micros(o, 99), "ours-p99-µs")
	b.ReportMetric(float64(plainAllocs), "plain-allocs")
	b.ReportMetric(float64(oursAllocs), "ours-allocs")
	b.ReportMetric(micros(o, 50)/micros(a, 50), "ratio")
}

// allocs returns how many allocations f makes, in the whole process.
func allocs(f func()) uint64 {
	const rounds = 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.Mallocs - before.Mallocs) / rounds
}

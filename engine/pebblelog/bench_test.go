package pebblelog_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// event61 is the 61-byte event of the comparison that the speed goals come from.
var event61 = []byte(`{"orderId":"order-000001","customerId":"cust-42","total":99}.`)

func openBench(b *testing.B, o *pebblelog.Options) *pebblelog.Log {
	b.Helper()
	l, err := pebblelog.Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}

// openRaw opens bare Pebble with the engine's own options: the baseline.
func openRaw(b *testing.B) *pebblelog.Raw {
	b.Helper()
	r, err := pebblelog.OpenRaw(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	return r
}

// block is how many operations of one side run before it is the other's turn:
// enough to hide the clock, few enough that both see the same noise.
const block = 64

// versus runs ours and bare Pebble in turns; see turns.
func versus(b *testing.B, n int, ours, raw func(i int)) {
	b.Helper()
	turns(b, n, "pebble", ours, raw)
}

// turns runs ours and theirs, of which other is the name, in turns, b.N operations each, and reports the time of
// each for one of n items, allocations of ours, and the ratio of the two.
func turns(b *testing.B, n int, other string, ours, theirs func(i int)) {
	b.Helper()
	allocs := testing.AllocsPerRun(10, func() { ours(-1) })
	var a, z time.Duration
	for i := 0; i < b.N; i += block {
		k := min(i+block, b.N)
		start := time.Now()
		for j := i; j < k; j++ {
			ours(j)
		}
		middle := time.Now()
		for j := i; j < k; j++ {
			theirs(j)
		}
		a += middle.Sub(start)
		z += time.Since(middle)
	}
	items := float64(b.N) * float64(n)
	b.ReportMetric(float64(a)/float64(z), "x-"+other)
	b.ReportMetric(float64(a.Nanoseconds())/items, "ns/item")
	b.ReportMetric(float64(z.Nanoseconds())/items, other+"-ns/item")
	b.ReportMetric(items/a.Seconds()/1e6, "M/s")
	b.ReportMetric(allocs, "allocs")
	b.ReportMetric(0, "ns/op")
}

// benchCommit commits size events of 61 bytes to a new stream at durability OS, and
// the same keys and bytes with bare Pebble on the same file layer.
func benchCommit(b *testing.B, size int) {
	l := openBench(b, &pebblelog.Options{Durability: mainstem.OS})
	raw := openRaw(b)
	batch := mainstem.NewBatch()
	var key []byte
	fresh := 0
	versus(b, size, func(int) {
		fresh++
		key = fmt.Appendf(key[:0], "bench-%d", fresh)
		batch.Reset()
		batch.Ensure("event/bench", mainstem.Policy{})
		batch.IfAbsent("event/bench", key)
		for range size {
			batch.Put("event/bench", key, event61)
		}
		if _, err := l.Commit(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}, func(i int) {
		key = fmt.Appendf(key[:0], "bench-%d", i)
		raw.CommitEvents(uint64(i), key, event61, size)
	})
}

func BenchmarkCommitOne(b *testing.B) { benchCommit(b, 1) }

func BenchmarkCommitBatch100(b *testing.B) { benchCommit(b, 100) }

// BenchmarkRawKeys is the yardstick for BenchmarkCommitBatch100: how many plain keys
// a second bare Pebble takes in batches of 100.
func BenchmarkRawKeys(b *testing.B) {
	raw := openRaw(b)
	start := time.Now()
	for i := range b.N {
		raw.CommitKeys(uint64(i), 100, len(event61))
	}
	b.ReportMetric(float64(b.N)*100/time.Since(start).Seconds()/1e6, "M/s")
}

func fill(b *testing.B, l *pebblelog.Log, space string, p mainstem.Policy, keys, perKey int) {
	b.Helper()
	batch := mainstem.NewBatch()
	for i := range keys {
		for range perKey {
			batch.Ensure(space, p)
			batch.Put(space, fmt.Appendf(nil, "key-%07d", i), event61)
		}
		if batch.Len() >= 1000 || i == keys-1 {
			if _, err := l.Commit(context.Background(), batch); err != nil {
				b.Fatal(err)
			}
			batch.Reset()
		}
	}
}

// eachPlace runs a read benchmark on data in memory, not yet sorted out, and on
// data in sorted files.
func eachPlace(b *testing.B, space string, p mainstem.Policy, keys, perKey int, f func(b *testing.B, l *pebblelog.Log)) {
	for _, place := range []string{"memtable", "files"} {
		b.Run(place, func(b *testing.B) {
			l := openBench(b, &pebblelog.Options{Durability: mainstem.OS})
			fill(b, l, space, p, keys, perKey)
			if l.DrainRaw(); place == "files" {
				l.FlushRaw()
			}
			f(b, l)
		})
	}
}

// BenchmarkNewKeyAmongAMillion writes a key that is not there, on that condition, into a
// space of a million keys, and the same into an empty one.
func BenchmarkNewKeyAmongAMillion(b *testing.B) {
	for name, p := range map[string]mainstem.Policy{"newest": {History: 1}, "all": {}} {
		b.Run(name, func(b *testing.B) {
			full := openBench(b, &pebblelog.Options{Durability: mainstem.OS})
			fill(b, full, "s", p, 1_000_000, 1)
			full.FlushRaw()
			empty := openBench(b, &pebblelog.Options{Durability: mainstem.OS})
			batch := mainstem.NewBatch()
			n := 0
			put := func(l *pebblelog.Log) {
				n++
				key := fmt.Appendf(nil, "key-%07d-%d", n*7919%1_000_000, n)
				batch.Reset()
				batch.Ensure("s", p)
				batch.IfAbsent("s", key)
				batch.Put("s", key, event61)
				if _, err := l.Commit(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
			turns(b, 1, "empty", func(int) { put(full) }, func(int) { put(empty) })
		})
	}
}

// BenchmarkGet reads one of 10,000 keys, and with bare Pebble the same key of the
// same files.
func BenchmarkGet(b *testing.B) {
	eachPlace(b, "kv/bench/t", mainstem.Policy{History: 1}, 10_000, 1, func(b *testing.B, l *pebblelog.Log) {
		var key []byte
		at := func(i int) []byte {
			key = fmt.Appendf(key[:0], "key-%07d", (i+1)*7919%10_000)
			return key
		}
		versus(b, 1, func(i int) {
			if _, err := l.Get(context.Background(), "kv/bench/t", at(i)); err != nil {
				b.Fatal(err)
			}
		}, func(i int) { l.RawGet("kv/bench/t", at(i)) })
	})
}

// BenchmarkGetMany gets 100 keys at once, in no order.
func BenchmarkGetMany(b *testing.B) {
	eachPlace(b, "kv/bench/t", mainstem.Policy{History: 1}, 10_000, 1, func(b *testing.B, l *pebblelog.Log) {
		keys := make([][]byte, 100)
		at := func(i int) {
			for j := range keys {
				keys[j] = fmt.Appendf(keys[j][:0], "key-%07d", ((i+1)*100+j)*7919%10_000)
			}
		}
		versus(b, 100, func(i int) {
			at(i)
			sum(b, 100, l.GetMany(context.Background(), "kv/bench/t", keys))
		}, func(i int) {
			at(i)
			for _, key := range keys {
				l.RawGet("kv/bench/t", key)
			}
		})
	})
}

// BenchmarkReadStream reads a stream of 1,000 events.
func BenchmarkReadStream(b *testing.B) {
	eachPlace(b, "event/bench", mainstem.Policy{}, 10, 1000, func(b *testing.B, l *pebblelog.Log) {
		key := []byte("key-0000003")
		versus(b, 1000, func(int) {
			sum(b, 1000, l.Read(context.Background(), "event/bench", key, mainstem.Versions{}))
		}, func(int) { l.RawRead("event/bench", key) })
	})
}

// BenchmarkScan lists 1,000 keys.
func BenchmarkScan(b *testing.B) {
	eachPlace(b, "kv/bench/t", mainstem.Policy{History: 1}, 1000, 1, func(b *testing.B, l *pebblelog.Log) {
		versus(b, 1000, func(int) {
			sum(b, 1000, l.Scan(context.Background(), "kv/bench/t", mainstem.Range{}))
		}, func(int) { l.RawScan("kv/bench/t") })
	})
}

// BenchmarkFeed reads 10,000 events in the order of the log; bare Pebble reads as
// many versions of keys.
func BenchmarkFeed(b *testing.B) {
	eachPlace(b, "event/bench", mainstem.Policy{}, 10, 1000, func(b *testing.B, l *pebblelog.Log) {
		versus(b, 10_000, func(int) {
			sum(b, 10_000, l.Feed(context.Background(), mainstem.Filter{}))
		}, func(int) {
			for i := range 10 {
				l.RawRead("event/bench", fmt.Appendf(nil, "key-%07d", i))
			}
		})
	})
}

func sum(b *testing.B, records int, seq iter.Seq2[mainstem.Record, error]) {
	n := 0
	for r, err := range seq {
		if err != nil {
			b.Fatal(err)
		}
		n += len(r.Value)
	}
	if n != records*len(event61) {
		b.Fatalf("read %d bytes, want %d", n, records*len(event61))
	}
}

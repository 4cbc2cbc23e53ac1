package kv_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/kv"
)

func benchLog(b *testing.B) mainstem.Log {
	b.Helper()
	log := must[*pebblelog.Log](b)(pebblelog.OpenMemory(&pebblelog.Options{Durability: mainstem.OS}))
	b.Cleanup(func() { check(b, log.Close()) })
	return log
}

// versus compares op with bare, the same done on the contract without this
// package. They take turns of n calls, so that neither has the quieter machine.
// Reported are the medians over the turns: of what a call of op takes, and of how
// many times longer than bare (x/bare).
func versus(b *testing.B, n int, op, bare func(i int)) {
	b.Helper()
	turn := func(f func(int), first int) float64 {
		start := time.Now()
		for i := range n {
			f(first + i)
		}
		return float64(time.Since(start)) / float64(n)
	}
	var took, ratio []float64
	for b.Loop() {
		i := len(took) * n
		t := turn(op, i)
		took, ratio = append(took, t), append(ratio, t/turn(bare, i))
	}
	slices.Sort(took)
	slices.Sort(ratio)
	b.ReportMetric(0, "ns/op") // of no use: both together
	b.ReportMetric(took[len(took)/2], "ns/call")
	b.ReportMetric(ratio[len(ratio)/2], "x/bare")
}

func BenchmarkGet(b *testing.B) {
	for _, size := range []int{10, 1 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			ctx, log := b.Context(), benchLog(b)
			bucket := open[[]byte](b, log, "bench", nil)
			put(b, bucket, "test-key", make([]byte, size))
			versus(b, 64, func(int) {
				if _, err := bucket.Get(ctx, "test-key"); err != nil {
					b.Fatal(err)
				}
			}, func(int) {
				if _, err := log.Get(ctx, bucket.Space(), []byte("test-key")); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func BenchmarkPut(b *testing.B) {
	for _, size := range []int{10, 1 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			ctx, log := b.Context(), benchLog(b)
			bucket := open[[]byte](b, log, "kv", nil)
			bare := open[[]byte](b, log, "bare", nil)
			value := make([]byte, size)
			put(b, bare, "first", value)
			policy := must[mainstem.SpaceInfo](b)(log.Space(ctx, bare.Space())).Policy
			key := func(i int) string { return fmt.Sprintf("key-%d", i%100_000) }
			batch := mainstem.NewBatch()
			versus(b, 16, func(i int) {
				if _, err := bucket.Put(ctx, key(i), value); err != nil {
					b.Fatal(err)
				}
			}, func(i int) {
				batch.Reset()
				batch.Ensure(bare.Space(), policy)
				batch.Put(bare.Space(), []byte(key(i)), value)
				if _, err := log.Commit(ctx, batch); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func BenchmarkList1000(b *testing.B) {
	ctx, log := b.Context(), benchLog(b)
	bucket := open[[]byte](b, log, "bench", nil)
	for i := range 1000 {
		put(b, bucket, fmt.Sprintf("key-%04d", i), fmt.Appendf(nil, "value-%d", i))
	}
	bare := func(r mainstem.Range) func(int) {
		return func(int) {
			n := 0
			for _, err := range log.Scan(ctx, bucket.Space(), r) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != 1000 {
				b.Fatal(n)
			}
		}
	}
	b.Run("entries", func(b *testing.B) {
		versus(b, 1, func(int) {
			n := 0
			for _, err := range bucket.List(ctx, nil) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != 1000 {
				b.Fatal(n)
			}
		}, bare(mainstem.Range{}))
	})
	b.Run("keys", func(b *testing.B) {
		versus(b, 1, func(int) {
			n := 0
			for _, err := range bucket.Keys(ctx, nil) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != 1000 {
				b.Fatal(n)
			}
		}, bare(mainstem.Range{KeysOnly: true}))
	})
	b.Run("count", func(b *testing.B) {
		versus(b, 1, func(int) {
			if n, err := bucket.Count(ctx, nil); n != 1000 || err != nil {
				b.Fatal(n, err)
			}
		}, bare(mainstem.Range{KeysOnly: true}))
	})
}

func BenchmarkGetJSON(b *testing.B) {
	ctx, log := b.Context(), benchLog(b)
	bucket := open[user](b, log, "bench", nil)
	put(b, bucket, "k", user{"Ada", 36})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bucket.Get(ctx, "k"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIncrement(b *testing.B) {
	ctx, log := b.Context(), benchLog(b)
	bucket := open[int64](b, log, "bench", nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := kv.Increment(ctx, bucket, "k", 1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPutIndexed compares writes of a key that is there already with those of a plain bucket: every write gives the
// value other parts in each index.
func BenchmarkPutIndexed(b *testing.B) {
	for _, n := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("indexes=%d", n), func(b *testing.B) {
			ctx, log := b.Context(), benchLog(b)
			var indexes []kv.Index[member]
			for i := range n {
				indexes = append(indexes, kv.Index[member]{Name: fmt.Sprint("i", i), Unique: i == 2, Of: func(m member) []kv.Part {
					return []kv.Part{kv.Text(m.Email), kv.Int(int64(m.Age + i))}
				}})
			}
			plain := open[member](b, log, "plain", nil)
			x := must[*kv.Indexed[member]](b)(kv.OpenIndexed(log, "indexed", nil, indexes...))
			key := func(i int) string { return fmt.Sprintf("key-%04d", i%1000) }
			versus(b, 64, func(i int) {
				if _, err := x.Put(ctx, key(i), member{"ada@example.org", "Paris", i}); err != nil {
					b.Fatal(err)
				}
			}, func(i int) {
				if _, err := plain.Put(ctx, key(i), member{"ada@example.org", "Paris", i}); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkGetBy compares reading by a unique index with reading by key.
func BenchmarkGetBy(b *testing.B) {
	ctx, log := b.Context(), benchLog(b)
	x := must[*kv.Indexed[member]](b)(kv.OpenIndexed(log, "indexed", nil, byEmail))
	for i := range 1000 {
		set(b, x, fmt.Sprint(i), member{Email: fmt.Sprint("m", i)})
	}
	versus(b, 64, func(i int) {
		if _, err := x.By("email").Get(ctx, kv.Text(fmt.Sprint("m", i%1000))); err != nil {
			b.Fatal(err)
		}
	}, func(i int) {
		if _, err := x.Get(ctx, fmt.Sprint(i%1000)); err != nil {
			b.Fatal(err)
		}
	})
}

package producer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic"
)

// BenchmarkAppend compares an append of a produce request with the append of package topic in the
// same run. "ratio" is the time of the first divided by that of the second.
func BenchmarkAppend(b *testing.B) {
	for _, partitions := range []int32{1, 8} {
		for _, size := range []int{100, 10_000} {
			for _, kind := range []string{"plain", "idempotent"} {
				b.Run(fmt.Sprintf("partitions=%d/bytes=%d/%s", partitions, size, kind), func(b *testing.B) {
					benchmarkAppend(b, partitions, size, kind == "idempotent")
				})
			}
		}
	}
}

// stretch is the number of appends of one kind that follow each other. Stretches of both kinds
// alternate, so that they have the same conditions. Their medians are compared.
const stretch = 64

func benchmarkAppend(b *testing.B, partitions int32, size int, idempotent bool) {
	log, err := pebblelog.OpenMemory(&pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	f := newFixtureOn(b, log)
	defer f.reopen(true)
	t, other := f.topic("t", partitions, topic.RetentionMs, "-1"), f.topic("other", partitions, topic.RetentionMs, "-1")
	from := id{-1, -1}
	if idempotent {
		from = f.init("")
	}
	value := strings.Repeat("x", size)
	requests := make([][]Append, stretch)
	many := make([][][]byte, stretch) // by partition
	seq := int32(0)
	var times [2][]float64 // of each stretch
	run := [2]func(){
		func() {
			for i := range requests {
				f.m.Append(b.Context(), AppendOptions{}, requests[i])
				if requests[i][0].Code != 0 {
					b.Fatal(requests[i][0].Message)
				}
			}
		},
		func() {
			for i := range many {
				together := mainstem.NewBatch()
				for p, data := range many[i] {
					other.AppendTo(together, int32(p), data)
				}
				if _, err := log.Commit(b.Context(), together); err != nil {
					b.Fatal(err)
				}
			}
		},
	}
	for n := 0; b.Loop(); n++ {
		for i := range requests {
			requests[i], many[i] = requests[i][:0], many[i][:0]
			for p := range partitions {
				data := batch(from, seq, false, value)
				requests[i] = append(requests[i], Append{Topic: t, Partition: p, Batch: data})
				many[i] = append(many[i], data)
			}
			seq++
		}
		// Each kind is the first equally often: the batches are not in the CPU cache then.
		for _, which := range []int{n % 2, 1 - n%2} {
			times[which] = append(times[which], seconds(run[which]))
		}
	}
	ours, bare := median(times[0]), median(times[1])
	b.ReportMetric(ours/bare, "ratio")
	b.ReportMetric(ours/stretch*1e9, "ns/append")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTransaction is a transaction of one batch and one offset, begun by the
// batch, on a log that does not wait for a disk.
func BenchmarkTransaction(b *testing.B) {
	log, err := pebblelog.OpenMemory(&pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	f := newFixtureOn(b, log)
	defer f.reopen(true)
	t := f.topic("t", 1)
	p, code := f.init("x"), int16(0)
	for b.Loop() {
		a := f.txnAppend("x", true, t, 0, batch(p, 0, true, "v"))
		stored := f.offset("x", p, 5, "g", "t", 0, 1)
		if p, code = f.end("x", p, true, 5); code != 0 || stored != 0 || a.Code != 0 {
			b.Fatal(code, stored, a.Message)
		}
	}
}

func seconds(f func()) float64 {
	start := time.Now()
	f()
	return time.Since(start).Seconds()
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

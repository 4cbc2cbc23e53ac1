package store_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/internal/store"
)

// BenchmarkApply adds groups of one and of a hundred records to streams that are new, and
// drains them to nowhere; in turns with a Go map of slices, which copies the records.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			groups := make([][]byte, 1000)
			for i := range groups {
				var g group
				g.appendEvents(1, fmt.Sprintf("stream-%d", i), 1, uint64(i*n)+1, n, fmt.Sprintf("%0100d", i))
				groups[i] = g.effects()
			}
			value := fmt.Appendf(nil, "%0100d", 1)
			var ours, drains, theirs time.Duration
			for i := 0; i < b.N; i += len(groups) {
				h := store.NewHot(64 << 20)
				start := time.Now()
				for _, effects := range groups {
					if err := h.Apply(effects); err != nil {
						b.Fatal(err)
					}
				}
				ours += time.Since(start)
				start = time.Now()
				if err := h.Drain(4<<20, ignore); err != nil {
					b.Fatal(err)
				}
				drains += time.Since(start)
				start = time.Now()
				m := map[string][][]byte{}
				for j := range groups {
					key := fmt.Sprintf("stream-%d", j)
					for range n {
						m[key] = append(m[key], bytes.Clone(value))
					}
				}
				theirs += time.Since(start)
			}
			records := float64((b.N+len(groups)-1)/len(groups)*len(groups)) * float64(n)
			b.ReportMetric(float64(ours.Nanoseconds())/records, "ns/record")
			b.ReportMetric(float64(drains.Nanoseconds())/records, "drain-ns/record")
			b.ReportMetric(float64(ours)/float64(theirs), "x-map")
			b.ReportMetric(0, "ns/op")
		})
	}
}

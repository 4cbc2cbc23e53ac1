package eventtopic_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// BenchmarkRead reads a store of 100-byte events from start to end, in pieces of 1 MiB.
func BenchmarkRead(b *testing.B) {
	const n = 20_000
	log := testengines.Memory(b)
	s := store(b, log, "s")
	for i := range n / 1000 {
		batch := mainstem.NewBatch()
		for j := range 1000 {
			s.AppendTo(batch, fmt.Sprintf("order-%d-%d", i, j), event.AnyVersion, []event.Event{{Type: "OrderPlaced", Data: bytes.Repeat([]byte("x"), 100)}})
		}
		if _, err := log.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	for _, name := range []string{"event.s", "event.s.order"} {
		b.Run(name, func(b *testing.B) {
			tp := find(b, open(b, log), name)
			b.ReportAllocs()
			for b.Loop() {
				var buf []byte
				for offset := int64(0); ; {
					c := read(b, tp, offset, &partition.ReadOptions{Buffer: buf[:0]})
					if len(c.Data) == 0 {
						break
					}
					offset, buf = c.Next, c.Data
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
		})
	}
}

package logcopy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/logcopy"
)

// BenchmarkDirectoryToDirectory copies 100,000 small events, each committed by
// itself, and compares the two sides.
func BenchmarkDirectoryToDirectory(b *testing.B) {
	const events = 100_000
	from, err := pebblelog.Open(b.TempDir(), &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		b.Fatal(err)
	}
	defer from.Close()
	for n := range events {
		batch := mainstem.NewBatch()
		batch.Ensure("event/orders", mainstem.Policy{})
		batch.Add(mainstem.Write{
			Space: "event/orders", Key: fmt.Append(nil, "order-", n%1000), Value: fmt.Appendf(nil, `{"n":%d,"what":"something small"}`, n),
			Headers: mainstem.Headers{{Name: "type", Value: []byte("OrderPlaced")}},
		})
		if _, err := from.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		to, err := pebblelog.Open(b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		var compared time.Time
		c, err := logcopy.New(from, to, &logcopy.Options{OnProgress: func(p logcopy.Progress) {
			if p.Phase == logcopy.Comparing && compared.IsZero() {
				compared = time.Now()
			}
		}})
		if err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		r, err := c.Run(b.Context())
		if err != nil || r.Err() != nil {
			b.Fatal(err, r.Err())
		}
		took := time.Since(begin)
		b.ReportMetric(events/took.Seconds(), "records/s")
		b.ReportMetric(events/compared.Sub(begin).Seconds(), "copied/s")
		if err := to.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

package budget_test

import (
	"testing"

	"github.com/mainstemdev/mainstem/internal/budget"
)

// BenchmarkAnswer is what a budget adds to an answer that takes its memory, is encoded,
// written and gone: five calls. "idle" is without a limit, where they do nothing.
func BenchmarkAnswer(b *testing.B) {
	process := budget.New("process", 1<<40)
	for _, x := range []struct {
		name string
		of   *budget.Budget
	}{{"limited", process.Child("answers", 1<<39)}, {"idle", nil}} {
		answer := func() {
			h := x.of.Hold()
			_ = h.Try(128 << 10)
			h.Shrink(64 << 10)
			h.OnRecall(func() {}, nil)
			h.OnRecall(nil, nil)
			h.Release()
		}
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				answer()
			}
		})
		b.Run(x.name+", on all processors", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					answer()
				}
			})
		})
	}
}

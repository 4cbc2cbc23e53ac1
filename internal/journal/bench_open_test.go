package journal_test

import (
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// BenchmarkOpen opens a journal of 64 MiB that was not closed, whose newest segment is a
// recycled one: all frames are checked and replayed, and the old bytes behind them are
// searched for proof of damage.
func BenchmarkOpen(b *testing.B) {
	for _, bytes := range []int{frameBytes, 10 << 10} {
		b.Run(map[int]string{frameBytes: "frames=200B", 10 << 10: "frames=10KiB"}[bytes], func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "journal")
			j, err := journal.Open(vfs.Default, dir, journal.Options{Create: true})
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			fill := func(size int) {
				for done := 0; done < size; done += bytes {
					if _, err := j.Commit(mainstem.OS, journal.Frame{Count: 1, Effects: make([]byte, bytes)}); err != nil {
						b.Fatal(err)
					}
				}
			}
			fill(160 << 20)
			if err := j.TruncateFront(j.Durable()); err != nil {
				b.Fatal(err)
			}
			fill(64 << 20)
			frames := 0
			for b.Loop() {
				frames = 0
				if _, err := journal.Open(vfs.Default, dir, journal.Options{ReadOnly: true, Replay: func(journal.Frame) error { frames++; return nil }}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(frames), "frames")
			b.ReportMetric(float64(j.Stats().SegmentBytes)/(1<<20), "MiB")
		})
	}
}

package pebblelog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/format"
)

// appendEvents commits n times size events of a stream of their own, in new streams.
func appendEvents(b *testing.B, l *pebblelog.Log, n, size int) {
	b.Helper()
	batch := mainstem.NewBatch()
	for i := range n {
		key := fmt.Appendf(nil, "bench-%d", i)
		batch.Reset()
		batch.Ensure("event/bench", mainstem.Policy{})
		for j := range size {
			batch.Put("event/bench", key, fmt.Appendf(nil, `{"orderId":"order-%06d","customerId":"cust-%d","total":%d.50}`, i+j, j, i))
		}
		if _, err := l.Commit(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

// filesOf returns the bytes of the files below dir, by the first part of their names.
func filesOf(b *testing.B, dir string) map[string]int64 {
	b.Helper()
	sizes := map[string]int64{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			name, _ := filepath.Rel(dir, path)
			part, _, _ := strings.Cut(name, string(filepath.Separator))
			if part == "db" && !strings.HasSuffix(name, ".sst") {
				part = "db-other"
			}
			sizes[part] += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return sizes
}

// BenchmarkAtRest appends b.N events of about 61 bytes and reports the files of the directory
// after Close, in bytes for an event: of the journal, and of the sorted files by the kind of
// their keys.
func BenchmarkAtRest(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			dir := b.TempDir()
			l, err := pebblelog.Open(dir, &pebblelog.Options{Durability: mainstem.OS})
			if err != nil {
				b.Fatal(err)
			}
			n := max(b.N/size, 1)
			appendEvents(b, l, n, size)
			events := float64(n * size)
			for part, bytes := range filesOf(b, dir) {
				b.ReportMetric(float64(bytes)/events, "B-open-"+part)
			}
			begun := time.Now()
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(begun).Microseconds())/1e3, "ms-close")
			total := int64(0)
			for part, bytes := range filesOf(b, dir) {
				total += bytes
				b.ReportMetric(float64(bytes)/events, "B-"+part)
			}
			b.ReportMetric(float64(total)/events, "B/event")
			begun = time.Now()
			l, err = pebblelog.Open(dir, &pebblelog.Options{Durability: mainstem.OS})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.ReportMetric(float64(time.Since(begun).Microseconds())/1e3, "ms-open")
			sizes := l.DiskByKind(format.TagVersion, format.TagFeed)
			b.ReportMetric(float64(sizes[0])/events, "B-records")
			b.ReportMetric(float64(sizes[1])/events, "B-feed")
		})
	}
}

// BenchmarkOpenKilled opens a directory as a killed process left it, with a full hot tier.
func BenchmarkOpenKilled(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			dir := b.TempDir()
			l, err := pebblelog.Open(filepath.Join(dir, "log"), &pebblelog.Options{Durability: mainstem.OS})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			appendEvents(b, l, 100_000/size, size)
			var took, first time.Duration
			for i := range b.N {
				killed := filepath.Join(dir, fmt.Sprintf("killed-%d", i))
				for os.CopyFS(killed, os.DirFS(filepath.Join(dir, "log"))) != nil { // a file went meanwhile
					if err := os.RemoveAll(killed); err != nil {
						b.Fatal(err)
					}
				}
				begun := time.Now()
				l, err := pebblelog.Open(killed, &pebblelog.Options{Durability: mainstem.OS})
				if err != nil {
					b.Fatal(err)
				}
				took += time.Since(begun)
				begun = time.Now()
				appendEvents(b, l, 1, size)
				first += time.Since(begun)
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
				if err := os.RemoveAll(killed); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(took.Microseconds())/1e3/float64(b.N), "ms-open")
			b.ReportMetric(float64(first.Microseconds())/1e3/float64(b.N), "ms-commit")
			b.ReportMetric(float64(filesOf(b, filepath.Join(dir, "log"))["journal"])/(1<<20), "MiB-journal")
			b.ReportMetric(0, "ns/op")
		})
	}
}

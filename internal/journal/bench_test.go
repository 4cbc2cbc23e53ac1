package journal_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// frameBytes is the effects of one frame in the benchmarks.
const frameBytes = 200

// A contender appends p and returns when it has the durability that the benchmark is
// about. It may be called from many goroutines.
type contender struct {
	name   string
	append func(p []byte) error
}

// bareFile is what the journal is compared with: a file that is written to under a mutex,
// and one fdatasync for all who wait for it. Where size is not 0 the file was written with
// zeros, and it is written from its beginning again when it is full.
type bareFile struct {
	f    vfs.File
	size int64

	mu      sync.Mutex
	end     int64 // where the next write goes
	written int64 // bytes in all

	syncing sync.Mutex
	synced  int64
}

func openBare(b *testing.B, size int64) *bareFile {
	f, err := vfs.Default.OpenReadWrite(filepath.Join(b.TempDir(), "bare"), vfs.WriteCategoryUnspecified)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	zeros := make([]byte, 16<<10) // larger writes make later small ones slow
	for off := int64(0); off < size; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, off); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return &bareFile{f: f, size: size}
}

func (l *bareFile) write(p []byte) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.end+int64(len(p)) > l.size {
		l.end = 0
	}
	_, err := l.f.WriteAt(p, l.end)
	l.end += int64(len(p))
	l.written += int64(len(p))
	return l.written, err
}

func (l *bareFile) sync(upTo int64) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if l.synced >= upTo {
		return nil
	}
	l.mu.Lock()
	written := l.written
	l.mu.Unlock()
	if err := l.f.SyncData(); err != nil {
		return err
	}
	l.synced = written
	return nil
}

// contenders returns the journal and the bare files, the journal first.
func contenders(b *testing.B, d mainstem.Durability) []contender {
	j, err := journal.Open(vfs.Default, filepath.Join(b.TempDir(), "journal"), journal.Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { j.Close() })
	var frames atomic.Int64
	out := []contender{{"journal", func(p []byte) error {
		if frames.Add(1)%(1<<17) == 0 { // what a store does when it has absorbed them
			if err := j.TruncateFront(j.Durable()); err != nil {
				return err
			}
		}
		_, err := j.Commit(d, journal.Frame{Count: 1, Effects: p})
		return err
	}}}
	for _, bare := range []struct {
		name string
		size int64
	}{{"preallocated", 64 << 20}, {"growing", 0}} {
		l := openBare(b, bare.size)
		out = append(out, contender{bare.name, func(p []byte) error {
			end, err := l.write(p)
			if err == nil && d == mainstem.Fsync {
				err = l.sync(end)
			}
			return err
		}})
	}
	return out
}

// BenchmarkAppend writes 200 bytes at a time to the journal, to a file that was written
// before, and to one that grows, taking turns, so that whatever else the machine does
// happens to all of them. It reports the median time of each, and the median over the
// turns of what the journal took for every nanosecond of the others.
func BenchmarkAppend(b *testing.B) {
	for _, d := range []mainstem.Durability{mainstem.OS, mainstem.Fsync} {
		for _, writers := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("%s/writers=%d", d, writers), func(b *testing.B) {
				cs := contenders(b, d)
				times := make([][]float64, len(cs))
				turn := 20 * writers
				if d == mainstem.OS {
					turn = 2000
				}
				for _, c := range cs {
					appendMany(b, c, writers, turn) // warm up
				}
				b.ResetTimer()
				for range b.N {
					for i, c := range cs {
						times[i] = append(times[i], appendMany(b, c, writers, turn))
					}
				}
				b.ReportMetric(0, "ns/op")
				report(b, cs, times)
			})
		}
	}
}

// appendMany lets writers append n times in all, and returns nanoseconds for each.
func appendMany(b *testing.B, c contender, writers, n int) float64 {
	p := make([]byte, frameBytes)
	var wg sync.WaitGroup
	began := time.Now()
	for range writers {
		wg.Go(func() {
			for range n / writers {
				if err := c.append(p); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(time.Since(began)) / float64(n/writers*writers)
}

func report(b *testing.B, cs []contender, times [][]float64) {
	for i, c := range cs {
		b.ReportMetric(median(times[i]), c.name+"-ns")
		if i == 0 {
			continue
		}
		ratios := make([]float64, len(times[i]))
		for k := range ratios {
			ratios[k] = times[0][k] / times[i][k]
		}
		b.ReportMetric(median(ratios), "of-"+c.name)
	}
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

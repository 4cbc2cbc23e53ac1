package soak

import (
	"os"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/machine"
)

// sampler takes samples of the process and of its log.
type sampler struct {
	t      *target
	spent  time.Duration
	series []Sample
}

func newSampler(t *target) *sampler { return &sampler{t: t, spent: processorTime()} }

func (s *sampler) take(at time.Duration, l Latency) {
	spent := processorTime()
	log := s.t.log.Stats()
	s.series = append(s.series, Sample{
		At: at, Latency: l, Resident: machine.Resident(), Anonymous: machine.Anonymous(), Heap: heap(), Goroutines: runtime.NumGoroutine(), Files: openFiles(),
		CPU: spent - s.spent, Disk: log.DiskBytes, InMemory: log.MemTable, Debt: log.PendingBytes,
		SortedFiles: log.SortedFiles, Compactions: log.Compactions, Failed: log.Failed,
	})
	s.spent = spent
}

func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}

// openFiles returns how many files the process has open, 0 where the system does not say.
func openFiles() int {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		if files, err := os.ReadDir(dir); err == nil {
			return len(files) - 1 // the directory
		}
	}
	return 0
}

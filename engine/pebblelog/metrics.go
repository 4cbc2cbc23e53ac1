package pebblelog

import (
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
)

// latencyBuckets are the upper bounds of Stats.Latency, in seconds.
var latencyBuckets = [...]float64{25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1, 5}

// metrics are counters of the leader, which adds to them, and of Stats, which reads them. They
// are not read at one moment: a commit between two reads is only in the counter that is read
// later.
type metrics struct {
	groups, batches, records, failed, bytes atomic.Uint64
	seconds                                 atomic.Uint64 // nanoseconds in groups
	buckets                                 [len(latencyBuckets) + 1]atomic.Uint64
}

// committed counts a durable run that took d and wrote n bytes to the journal.
func (m *metrics) committed(d time.Duration, n int) {
	m.groups.Add(1)
	m.bytes.Add(uint64(n))
	m.seconds.Add(uint64(d))
	i := 0
	for i < len(latencyBuckets) && d.Seconds() > latencyBuckets[i] {
		i++
	}
	m.buckets[i].Add(1)
}

// outcome counts the outcome of a waiter. Jobs count only if they failed. A duplicate counts as
// a batch, but its records were counted the first time.
func (m *metrics) outcome(w *waiter) {
	if w.err != nil {
		m.failed.Add(1)
		return
	}
	if w.batch == nil {
		return
	}
	m.batches.Add(1)
	if w.receipt.Last != 0 && !w.receipt.Duplicate {
		m.records.Add(uint64(w.receipt.Last - w.receipt.First + 1))
	}
}

// Stats has counters since the log was opened, and present sizes.
type Stats struct {
	Groups  uint64 // frames of the journal; each has one or more batches
	Batches uint64 // batches committed
	Records uint64 // records committed
	Failed  uint64 // batches refused
	Bytes   uint64 // bytes written to the journal
	// Latency of groups: LatencyCounts[i] groups took at most LatencyBuckets[i] seconds and more
	// than the bound before; the last entry of LatencyCounts has all slower ones.
	LatencyBuckets []float64
	LatencyCounts  []uint64
	LatencySum     time.Duration

	Head         mainstem.Position
	Spaces       int
	Followers    int
	DiskBytes    uint64 // bytes of all files
	MemTable     uint64 // bytes in memory that are not in sorted files yet
	HotBytes     uint64 // bytes of memory of the hot tier
	HotPending   uint64 // bytes of its groups that Pebble does not have yet; part of MemTable
	CacheBytes   int64
	Compactions  int64
	ReadOnly     bool // commits are refused after a failed write
	CacheHits    int64
	CacheMisses  int64
	SortedFiles  int64
	ReadAmplif   int
	PendingBytes uint64 // estimated compaction debt
}

// Stats returns counters and sizes of the engine. It is cheap enough to be called every second.
func (l *Log) Stats() Stats {
	if !l.readers.begin() {
		return Stats{}
	}
	defer l.readers.end()
	m := &l.metrics
	s := Stats{
		Groups: m.groups.Load(), Batches: m.batches.Load(), Records: m.records.Load(), Failed: m.failed.Load(), Bytes: m.bytes.Load(),
		LatencyBuckets: latencyBuckets[:], LatencySum: time.Duration(m.seconds.Load()),
		Head: mainstem.Position(l.position.Load()), Spaces: len(l.spaces.Load().names), Followers: l.followers.Len(),
		ReadOnly: l.failure.Load() != nil,
	}
	for i := range m.buckets {
		s.LatencyCounts = append(s.LatencyCounts, m.buckets[i].Load())
	}
	if s.ReadOnly {
		return s
	}
	p := l.db.Metrics()
	hot := l.hot.Stats()
	s.DiskBytes, s.MemTable = p.DiskSpaceUsage()+l.journalBytes(), p.MemTable.Size+uint64(hot.Pending)
	s.HotBytes, s.HotPending = uint64(hot.Bytes), uint64(hot.Pending)
	s.CacheBytes, s.CacheHits, s.CacheMisses = p.BlockCache.Size, p.BlockCache.Hits, p.BlockCache.Misses
	s.Compactions, s.ReadAmplif, s.PendingBytes = p.Compact.Count, p.ReadAmp(), p.Compact.EstimatedDebt
	for i := range p.Levels {
		s.SortedFiles += p.Levels[i].TablesCount
	}
	return s
}

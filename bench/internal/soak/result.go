package soak

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mainstemdev/mainstem/bench/internal/result"
)

// Result is what a soak measured. Times are in nanoseconds, memory and disk in bytes.
type Result struct {
	Started     time.Time      `json:"started"`
	Machine     result.Machine `json:"machine"`
	Build       result.Build   `json:"build"`
	Settings    Settings       `json:"settings"`
	Idle        Latency        `json:"idle"`                // at IdleRate
	Sustained   float64        `json:"sustained,omitempty"` // commits a second of writers that wait for nothing; 0 if the rate was given
	Rate        float64        `json:"rate"`                // commits a second of the steady load
	Load        Latency        `json:"load"`
	Missed      int64          `json:"missed,omitempty"` // commits of the steady load that could not begin
	CPU         time.Duration  `json:"cpu"`              // processor time of the process under the steady load
	Written     uint64         `json:"written"`          // bytes that its journal got meanwhile
	Series      []Sample       `json:"series"`
	Interrupted bool           `json:"interrupted,omitempty"` // the steady load ended early
}

// Settings are what was asked for.
type Settings struct {
	Durability    string        `json:"durability"`
	Writers       int           `json:"writers"`
	Keys          int           `json:"keys"`
	ValueBytes    int           `json:"value_bytes"`
	MemTableBytes int           `json:"memtable_bytes"`
	CacheBytes    int64         `json:"cache_bytes"`
	Part          float64       `json:"part,omitempty"` // of the sustained rate
	For           time.Duration `json:"for"`
	Every         time.Duration `json:"every"`
}

// Latency is how long commits took.
type Latency struct {
	Commits int64         `json:"commits"`
	P50     time.Duration `json:"p50"`
	P99     time.Duration `json:"p99"`
	P999    time.Duration `json:"p999"`
	Max     time.Duration `json:"max"`
	Timer   time.Duration `json:"timer"` // the latest that a timer was, which does not count
}

func latencyOf(h *hdrhistogram.Histogram, timer time.Duration) Latency {
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) }
	return Latency{Commits: h.TotalCount(), P50: at(50), P99: at(99), P999: at(99.9), Max: time.Duration(h.Max()), Timer: timer}
}

// Sample is what one interval of the steady load was like, and the process at its end.
type Sample struct {
	At time.Duration `json:"at"` // the end of the interval, since the load began
	Latency
	Resident    uint64        `json:"resident"`   // 0 where the system does not say
	Anonymous   uint64        `json:"anonymous"`  // what of it is no page of a file, such as of the program
	Heap        uint64        `json:"heap"`       // of live and dead objects
	Goroutines  int           `json:"goroutines"` // writers included
	Files       int           `json:"files"`      // that are open; 0 where the system does not say
	CPU         time.Duration `json:"cpu"`        // processor time of the interval
	Disk        uint64        `json:"disk"`
	InMemory    uint64        `json:"in_memory"` // bytes of the log that are in no sorted file yet
	Debt        uint64        `json:"debt"`      // bytes that Pebble thinks it has to compact
	SortedFiles int64         `json:"sorted_files"`
	Compactions int64         `json:"compactions"` // since the log was opened
	Failed      uint64        `json:"failed"`      // commits refused
}

// Ratio returns how many times longer the slowest thousandth of commits took under the steady
// load than at the low rate.
func (r *Result) Ratio() float64 {
	if r.Idle.P999 == 0 {
		return 0
	}
	return float64(r.Load.P999) / float64(r.Idle.P999)
}

// Tables returns how many times the table in memory was filled under the steady load.
func (r *Result) Tables() float64 {
	return float64(r.Written) / float64(max(r.Settings.MemTableBytes, 1))
}

// Trend is a number of the first and of the last quarter of the steady load, by medians of
// samples.
type Trend struct {
	Name        string
	Unit        string // as of the bench's tables: "ns", "B", "1"
	First, Last float64
}

// Trends returns what must not grow with time. It is empty for fewer than eight samples.
func (r *Result) Trends() []Trend {
	n := len(r.Series) / 4
	if n < 2 {
		return nil
	}
	var all []Trend
	add := func(name, unit string, of func(*Sample) float64) {
		median := func(s []Sample) float64 {
			var v []float64
			for i := range s {
				v = append(v, of(&s[i]))
			}
			slices.Sort(v)
			return v[len(v)/2]
		}
		all = append(all, Trend{name, unit, median(r.Series[:n]), median(r.Series[len(r.Series)-n:])})
	}
	add("p99.9 of an interval", "ns", func(s *Sample) float64 { return float64(s.P999) })
	add("resident memory", "B", func(s *Sample) float64 { return float64(s.Resident) })
	add("without pages of files", "B", func(s *Sample) float64 { return float64(s.Anonymous) })
	add("goroutines", "1", func(s *Sample) float64 { return float64(s.Goroutines) })
	add("open files", "1", func(s *Sample) float64 { return float64(s.Files) })
	add("sorted files", "1", func(s *Sample) float64 { return float64(s.SortedFiles) })
	add("bytes on disk", "B", func(s *Sample) float64 { return float64(s.Disk) })
	return all
}

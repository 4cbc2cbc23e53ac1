package suite

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// MaxLatency is the longest latency that is kept; longer ones count as this.
const MaxLatency = time.Hour

const significantDigits = 2

// Recorder collects the latencies of one round. It may be used from many
// goroutines: each takes a [Worker] of its own, so that none waits for another.
type Recorder struct {
	every int // one operation in so many is timed
	begin time.Time

	mu struct {
		sync.Mutex
		workers []*Worker
		marks   []Mark
	}
}

// Mark says how many operations were done after how long.
type Mark struct {
	Done    int
	Elapsed time.Duration
}

// NewRecorder returns an empty recorder that times one operation in every; 1 and
// less mean all of them. Reading the clock costs tens of nanoseconds: where the
// operation costs as little, a sample distorts less.
func NewRecorder(every int) *Recorder {
	return &Recorder{every: max(every, 1), begin: time.Now()}
}

// Worker returns a new recorder for one goroutine. Take it before the first
// operation: it allocates.
func (r *Recorder) Worker() *Worker {
	w := &Worker{
		every: r.every,
		next:  1,
		hist:  hdrhistogram.New(1, int64(MaxLatency), significantDigits),
	}
	if r.every > 1 {
		w.random = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
		w.next = 1 + w.random.IntN(r.every)
	}
	r.mu.Lock()
	r.mu.workers = append(r.mu.workers, w)
	r.mu.Unlock()
	return w
}

// Mark notes that done operations of this round are done by now: the points of
// the curve of a scale test. A few hundred in a round are enough.
func (r *Recorder) Mark(done int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The clock is read under the lock, so that marks of several goroutines are in order.
	r.mu.marks = append(r.mu.marks, Mark{Done: done, Elapsed: time.Since(r.begin)})
}

// Marks returns the marks, oldest first.
func (r *Recorder) Marks() []Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Mark(nil), r.mu.marks...)
}

// Histogram returns all latencies, in nanoseconds. Call it when the workers rest.
func (r *Recorder) Histogram() *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, int64(MaxLatency), significantDigits)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.mu.workers {
		h.Merge(w.hist)
	}
	return h
}

// Worker records the latencies of one goroutine.
type Worker struct {
	every  int
	next   int // operations until the next that is timed
	random *rand.Rand
	hist   *hdrhistogram.Histogram
}

// Begin starts an operation. What it returns belongs to End.
func (w *Worker) Begin() time.Time {
	if w.every == 1 {
		return time.Now()
	}
	if w.next--; w.next > 0 {
		return time.Time{}
	}
	w.next = 1 + w.random.IntN(2*w.every-1) // every on average, in step with nothing
	return time.Now()
}

// End ends the operation that began.
func (w *Worker) End(began time.Time) {
	if !began.IsZero() {
		w.Record(time.Since(began))
	}
}

// Record records a latency that was measured elsewhere, such as from the write on
// one goroutine to the arrival on another.
func (w *Worker) Record(d time.Duration) {
	// Cannot fail: the value is inside the range of the histogram.
	_ = w.hist.RecordValue(int64(min(max(d, 1), MaxLatency)))
}

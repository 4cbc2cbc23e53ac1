package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/suite"
)

const (
	// sampleFrom is the time of an operation from which every one is timed; of faster
	// ones, as many as take this long together have one that is.
	sampleFrom = 4 * time.Microsecond
	// sampleDigits are the significant digits of a sample.
	sampleDigits = 6

	maxGrowth = 100 // of the number of operations from one warm-up round to the next
	maxOps    = 1 << 30
	// warmUps is what warming up takes, in rounds, and starting and closing another:
	// how a share of time is divided.
	warmUps = 2
	minTime = 2 * time.Millisecond // of a round, however little time there is
)

// worker is one contender in one case, of one variant.
type worker struct {
	run      *run
	entry    *suite.Entry
	variant  int
	row      *result.Row
	executor Executor
	dir      string
	time     time.Duration // that a round aims at
	ops      int           // of a round
	every    int           // see [Assignment]
	entered  bool
	hist     *hdrhistogram.Histogram
}

// fresh reports whether every round of an entry has a start of its own: what asks for
// it, and scale tests of a fixed size, whose data would otherwise be there once for each
// contender, at the same time.
func fresh(e *suite.Entry) bool { return e.Fresh || e.Scale && e.Fixed > 0 }

// running reports whether the worker has rounds to do.
func (w *worker) running() bool { return w.entered && w.row.Status == result.OK }

// enter starts and warms up the worker. share is its part of the time that is left,
// 0 if time is not limited.
func (w *worker) enter(ctx context.Context, share time.Duration) {
	o := &w.run.o
	w.time = o.Time
	if share > 0 {
		w.time = min(w.time, max(share/time.Duration(o.Rounds+warmUps), minTime))
	}
	w.entered = true
	if fresh(w.entry) {
		w.ops = max(w.entry.Fixed, 1)
		return // every round starts it
	}
	w.run.step(w, "starting", 1)
	w.limited(ctx, w.start)
	if w.running() {
		w.run.step(w, "warming up", warmUps-1)
		w.limited(ctx, w.warm)
	}
}

// limited calls do with the time limit of an entry and makes its error the worker's.
func (w *worker) limited(ctx context.Context, do func(context.Context) error) {
	limit := w.run.o.Timeout
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took more than %v, the limit of an entry", limit))
	defer cancel()
	if err := do(bounded); err != nil {
		w.fail(failure(err))
	}
}

func (w *worker) fail(f *Failure) {
	w.row.Status = result.Failed
	if f.Skip {
		w.row.Status = result.Skipped
	}
	w.row.Reason = clip(f.Reason)
	w.row.Samples, w.row.Metrics, w.row.Marks, w.row.Latency, w.hist = nil, nil, nil, nil, nil
	if f.Broken && w.executor != nil {
		w.run.drop(w.executor)
		w.executor = nil
	}
}

func (w *worker) skip(reason string) { w.fail(&Failure{Skip: true, Reason: reason}) }

// clip shortens a reason to what a row holds.
func clip(reason string) string {
	reason = strings.ToValidUTF8(strings.TrimSpace(reason), "?")
	if reason == "" {
		return "it did not say why"
	}
	if len(reason) > result.MaxText/2 {
		reason = strings.ToValidUTF8(reason[:result.MaxText/2], "") + " …"
	}
	return reason
}

func (w *worker) start(ctx context.Context) error {
	var err error
	if w.dir, err = os.MkdirTemp(w.run.dir, "entry-*"); err != nil {
		return err
	}
	if w.executor, err = w.run.executor(ctx, w); err != nil {
		return err
	}
	return w.executor.Open(ctx, Opening{Entry: w.entry.Name(), Dir: w.dir, Addresses: w.run.o.Addresses, Quick: w.run.o.Quick})
}

// warm does rounds that are thrown away until it is known how many operations
// fit the time of one.
func (w *worker) warm(ctx context.Context) error {
	if w.entry.Fixed > 0 {
		w.ops = w.entry.Fixed
		_, err := w.executor.Round(ctx, Assignment{Ops: w.ops, Every: 1})
		return err
	}
	least := max(w.entry.Least, 1)
	shortest, again := time.Duration(math.MaxInt64), false // of the rounds with this number of operations
	for w.ops, w.every = least, 1; ; {
		m, err := w.executor.Round(ctx, Assignment{Ops: w.ops, Every: w.every})
		if err != nil {
			return err
		}
		shortest = min(shortest, m.Elapsed)
		each := max(float64(shortest)/float64(w.ops), 0.1)
		w.every = max(1, int(float64(sampleFrom)/each))
		fit := min(max(int(float64(w.time)/each), least), maxOps)
		// The first operation does what no other has to do, and of a round that is much longer than was to
		// be expected, most may be the time of another program: neither says how many operations fit.
		doubtful := w.ops == least || shortest > 2*w.time
		switch {
		case doubtful && !again:
			again = true
		case fit <= w.ops, shortest >= w.time/2:
			w.ops = fit
			return nil
		default:
			w.ops = min(fit, w.ops*maxGrowth)
			shortest, again = math.MaxInt64, false
		}
	}
}

// round does one round and keeps its sample.
func (w *worker) round(ctx context.Context, order int) {
	w.limited(ctx, func(ctx context.Context) error {
		if fresh(w.entry) {
			defer w.end(ctx)
			if err := w.start(ctx); err != nil {
				return err
			}
		}
		m, err := w.executor.Round(ctx, Assignment{Ops: w.ops, Every: w.every})
		if err != nil {
			return err
		}
		return w.keep(m, order)
	})
}

// rounded has the digits that a measurement can mean: files of results are long.
func rounded(v float64) float64 {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', sampleDigits, 64), 64) // it has just been formatted
	return short
}

func (w *worker) keep(m Measured, order int) error {
	ops := float64(w.ops)
	w.row.Samples = append(w.row.Samples, result.Sample{
		Ops: w.ops, Time: rounded(float64(m.Elapsed) / ops), Bytes: rounded(float64(m.Bytes) / ops), Allocs: rounded(float64(m.Allocs) / ops), Order: order,
	})
	if w.entry.Scale {
		w.row.Marks = m.Marks // a short round has no course
	}
	for _, x := range m.Metrics {
		known := w.row.Metric(x.Name)
		if known == nil {
			w.row.Metrics = append(w.row.Metrics, result.Metric{Name: x.Name, Unit: x.Unit, More: x.More})
			known = w.row.Metric(x.Name)
		}
		known.Values = append(known.Values, x.Value)
	}
	if len(m.Histogram) == 0 {
		return nil
	}
	h, err := hdrhistogram.Decode(m.Histogram)
	if err != nil {
		return fmt.Errorf("latencies: %w", err)
	}
	if w.hist == nil {
		w.hist = hdrhistogram.New(1, int64(suite.MaxLatency), int(h.SignificantFigures()))
	}
	w.hist.Merge(h)
	return nil
}

// leave closes the worker and finishes its row.
func (w *worker) leave(ctx context.Context) {
	w.limited(ctx, func(ctx context.Context) error {
		w.end(ctx)
		return nil
	})
	if w.row.Status != result.OK {
		return
	}
	if p := w.row.Primary; p != "" && w.row.Metric(p) == nil {
		w.fail(&Failure{Reason: fmt.Sprintf("it did not measure %q, by which this case is compared", p)})
		return
	}
	if len(w.row.Samples) == 0 {
		w.fail(&Failure{Reason: "it did no round"})
		return
	}
	w.row.Latency = latency(w.hist)
}

// end closes what is open and removes its files. An error of closing fails the row:
// what was not written until then may be lost. Of a row that has failed, the first
// reason is the one to know.
func (w *worker) end(ctx context.Context) {
	if w.executor != nil {
		err := w.executor.Shut(ctx)
		r := w.executor
		if err != nil && ctx.Err() == nil && w.row.Status == result.OK {
			w.fail(failure(err))
		}
		var f *Failure
		if fresh(w.entry) || errors.As(err, &f) && f.Broken {
			w.run.drop(r)
		}
		w.executor = nil
	}
	if w.dir != "" {
		_ = os.RemoveAll(w.dir) // the directory of the run goes at the end, with all in it
		w.dir = ""
	}
}

func latency(h *hdrhistogram.Histogram) *result.Latency {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	l := &result.Latency{Count: h.TotalCount(), Mean: h.Mean(), Max: h.Max()}
	for _, q := range result.Quantiles {
		if float64(l.Count)*(1-q) >= 1 || q <= 0.5 {
			l.Points = append(l.Points, result.Point{Quantile: q, Time: min(max(h.ValueAtQuantile(q*100), h.Min()), l.Max)})
		}
	}
	return l
}

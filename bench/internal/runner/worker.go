package race

import (
	"context"
	"errors"
	"fmt"
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

// lane is one contender in one case, of one variant.
type lane struct {
	meet    *meet
	entry   *suite.Entry
	variant int
	row     *result.Row
	runner  Runner
	dir     string
	time    time.Duration // that a round aims at
	ops     int           // of a round
	every   int           // see [Assignment]
	entered bool
	hist    *hdrhistogram.Histogram
}

// fresh reports whether every round of an entry has a start of its own: what asks for
// it, and scale tests of a fixed size, whose data would otherwise be there once for each
// contender, at the same time.
func fresh(e *suite.Entry) bool { return e.Fresh || e.Scale && e.Fixed > 0 }

// running reports whether the lane has rounds to do.
func (l *lane) running() bool { return l.entered && l.row.Status == result.OK }

// enter starts and warms up the lane. share is its part of the time that is left,
// 0 if time is not limited.
func (l *lane) enter(ctx context.Context, share time.Duration) {
	o := &l.meet.o
	l.time = o.Time
	if share > 0 {
		l.time = min(l.time, max(share/time.Duration(o.Rounds+warmUps), minTime))
	}
	l.entered = true
	if fresh(l.entry) {
		l.ops = max(l.entry.Fixed, 1)
		return // every round starts it
	}
	l.meet.step(l, "starting", 1)
	l.limited(ctx, l.start)
	if l.running() {
		l.meet.step(l, "warming up", warmUps-1)
		l.limited(ctx, l.warm)
	}
}

// limited calls do with the time limit of an entry and makes its error the lane's.
func (l *lane) limited(ctx context.Context, do func(context.Context) error) {
	limit := l.meet.o.Timeout
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took more than %v, the limit of an entry", limit))
	defer cancel()
	if err := do(bounded); err != nil {
		l.fail(failure(err))
	}
}

func (l *lane) fail(f *Failure) {
	l.row.Status = result.Failed
	if f.Skip {
		l.row.Status = result.Skipped
	}
	l.row.Reason = clip(f.Reason)
	l.row.Samples, l.row.Metrics, l.row.Marks, l.row.Latency, l.hist = nil, nil, nil, nil, nil
	if f.Broken && l.runner != nil {
		l.meet.drop(l.runner)
		l.runner = nil
	}
}

func (l *lane) skip(reason string) { l.fail(&Failure{Skip: true, Reason: reason}) }

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

func (l *lane) start(ctx context.Context) error {
	var err error
	if l.dir, err = os.MkdirTemp(l.meet.dir, "entry-*"); err != nil {
		return err
	}
	if l.runner, err = l.meet.runner(ctx, l); err != nil {
		return err
	}
	return l.runner.Open(ctx, Opening{Entry: l.entry.Name(), Dir: l.dir, Addresses: l.meet.o.Addresses, Quick: l.meet.o.Quick})
}

// warm does rounds that are thrown away until it is known how many operations
// fit the time of one.
func (l *lane) warm(ctx context.Context) error {
	if l.entry.Fixed > 0 {
		l.ops = l.entry.Fixed
		_, err := l.runner.Round(ctx, Assignment{Ops: l.ops, Every: 1})
		return err
	}
	least, warmed := max(l.entry.Least, 1), false
	for l.ops, l.every = least, 1; ; {
		m, err := l.runner.Round(ctx, Assignment{Ops: l.ops, Every: l.every})
		if err != nil {
			return err
		}
		each := max(float64(m.Elapsed)/float64(l.ops), 0.1)
		l.every = max(1, int(float64(sampleFrom)/each))
		fit := min(max(int(float64(l.time)/each), least), maxOps)
		cold := l.ops == least && !warmed && m.Elapsed < l.time
		switch {
		case cold: // the first operation does what no other has to do
			warmed = true
		case fit <= l.ops, m.Elapsed >= l.time/2:
			l.ops = fit
			return nil
		default:
			l.ops = min(fit, l.ops*maxGrowth)
		}
	}
}

// round does one round and keeps its sample.
func (l *lane) round(ctx context.Context, order int) {
	l.limited(ctx, func(ctx context.Context) error {
		if fresh(l.entry) {
			defer l.end(ctx)
			if err := l.start(ctx); err != nil {
				return err
			}
		}
		m, err := l.runner.Round(ctx, Assignment{Ops: l.ops, Every: l.every})
		if err != nil {
			return err
		}
		return l.keep(m, order)
	})
}

// rounded has the digits that a measurement can mean: files of results are long.
func rounded(v float64) float64 {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', sampleDigits, 64), 64) // it has just been formatted
	return short
}

func (l *lane) keep(m Measured, order int) error {
	ops := float64(l.ops)
	l.row.Samples = append(l.row.Samples, result.Sample{
		Ops: l.ops, Time: rounded(float64(m.Elapsed) / ops), Bytes: rounded(float64(m.Bytes) / ops), Allocs: rounded(float64(m.Allocs) / ops), Order: order,
	})
	if l.entry.Scale {
		l.row.Marks = m.Marks // a short round has no course
	}
	for _, x := range m.Metrics {
		known := l.row.Metric(x.Name)
		if known == nil {
			l.row.Metrics = append(l.row.Metrics, result.Metric{Name: x.Name, Unit: x.Unit, More: x.More})
			known = l.row.Metric(x.Name)
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
	if l.hist == nil {
		l.hist = hdrhistogram.New(1, int64(suite.MaxLatency), int(h.SignificantFigures()))
	}
	l.hist.Merge(h)
	return nil
}

// leave closes the lane and finishes its row.
func (l *lane) leave(ctx context.Context) {
	l.limited(ctx, func(ctx context.Context) error {
		l.end(ctx)
		return nil
	})
	if l.row.Status != result.OK {
		return
	}
	if p := l.row.Primary; p != "" && l.row.Metric(p) == nil {
		l.fail(&Failure{Reason: fmt.Sprintf("it did not measure %q, by which this case is compared", p)})
		return
	}
	if len(l.row.Samples) == 0 {
		l.fail(&Failure{Reason: "it did no round"})
		return
	}
	l.row.Latency = latency(l.hist)
}

// end closes what is open and removes its files. An error of closing fails the row:
// what was not written until then may be lost. Of a row that has failed, the first
// reason is the one to know.
func (l *lane) end(ctx context.Context) {
	if l.runner != nil {
		err := l.runner.Shut(ctx)
		r := l.runner
		if err != nil && ctx.Err() == nil && l.row.Status == result.OK {
			l.fail(failure(err))
		}
		var f *Failure
		if fresh(l.entry) || errors.As(err, &f) && f.Broken {
			l.meet.drop(r)
		}
		l.runner = nil
	}
	if l.dir != "" {
		_ = os.RemoveAll(l.dir) // the directory of the run goes at the end, with all in it
		l.dir = ""
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

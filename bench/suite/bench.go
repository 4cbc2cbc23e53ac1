package suite

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// Bench runs entries as Go benchmarks named case/contender, in this process: the
// same Start, Prepare, Run, Check and Close as the bench command, without its
// interleaving and statistics. It reports percentiles of latency and the metrics of
// the round. Entries with Scale are left to [BenchScale].
func Bench(b *testing.B, entries []Entry) { bench(b, entries, false) }

// BenchScale runs only the entries with Scale. It skips in -short mode.
func BenchScale(b *testing.B, entries []Entry) {
	if testing.Short() {
		b.Skip("scale tests take minutes: run without -short")
	}
	bench(b, entries, true)
}

func bench(b *testing.B, entries []Entry, scale bool) {
	for i := range entries {
		e := &entries[i]
		if e.Scale == scale {
			b.Run(e.Case+"/"+e.Contender, func(b *testing.B) { benchEntry(b, e) })
		}
	}
}

func benchEntry(b *testing.B, e *Entry) {
	ctx := b.Context()
	env := &Env{Dir: b.TempDir(), Quick: testing.Short(), Log: slog.New(slog.DiscardHandler)}
	if e.Skip != nil {
		if reason := e.Skip(env); reason != "" {
			b.Skip(reason)
		}
	}
	round, err := e.Start(ctx, env)
	if errors.Is(err, ErrSkip) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	if round.Close != nil {
		defer func() {
			if err := round.Close(); err != nil {
				b.Error(err)
			}
		}()
	}
	if err := benchRound(ctx, b, e, round); err != nil {
		b.Fatal(err)
	}
}

// benchRound measures b.N operations, or b.N times the fixed number of them.
func benchRound(ctx context.Context, b *testing.B, e *Entry, r *Round) error {
	b.StopTimer()
	n := b.N * max(e.Fixed, 1)
	if r.Prepare != nil {
		if err := r.Prepare(ctx, n); err != nil {
			return err
		}
	}
	rec := NewRecorder(1)
	b.ReportAllocs()
	if e.BytesPerOp > 0 {
		b.SetBytes(e.BytesPerOp * int64(max(e.Fixed, 1)))
	}
	b.ResetTimer()
	b.StartTimer()
	err := r.Run(ctx, n, rec)
	b.StopTimer()
	if err != nil {
		return err
	}
	if r.Check != nil {
		if err := r.Check(ctx); err != nil {
			return err
		}
	}
	return reportRound(ctx, b, n*max(e.Items, 1), r, rec)
}

func reportRound(ctx context.Context, b *testing.B, items int, r *Round, rec *Recorder) error {
	if s := b.Elapsed().Seconds(); s > 0 {
		b.ReportMetric(float64(items)/s, "items/s")
	}
	if h := rec.Histogram(); h.TotalCount() > 0 {
		b.ReportMetric(float64(h.ValueAtQuantile(50))/float64(time.Microsecond), "p50-µs")
		b.ReportMetric(float64(h.ValueAtQuantile(99))/float64(time.Microsecond), "p99-µs")
	}
	if r.Metrics == nil {
		return nil
	}
	metrics, err := r.Metrics(ctx)
	for _, m := range metrics {
		b.ReportMetric(m.Value, m.Name+"-"+m.Unit)
	}
	return err
}

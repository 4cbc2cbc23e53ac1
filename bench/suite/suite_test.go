package suite_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestParallelDoesEachOnce: n operations on as many goroutines as asked for, each with
// a number of its own, whatever the number of cores.
func TestParallelDoesEachOnce(t *testing.T) {
	const n, clients = 1000, 32
	var done [n]atomic.Int32
	var working, most atomic.Int32
	rec := suite.NewRecorder(1)
	err := suite.Parallel(t.Context(), n, clients, rec, func(_ context.Context, client, i int) error {
		if now := working.Add(1); now > most.Load() {
			most.Store(now)
		}
		defer working.Add(-1)
		if client < 0 || client >= clients {
			t.Errorf("client %d of %d", client, clients)
		}
		done[i].Add(1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range done {
		if got := done[i].Load(); got != 1 {
			t.Fatalf("operation %d was done %d times", i, got)
		}
	}
	if most.Load() > clients {
		t.Errorf("%d at the same time, want at most %d", most.Load(), clients)
	}
	if got := rec.Histogram().TotalCount(); got != n {
		t.Errorf("%d latencies, want %d", got, n)
	}
}

// TestParallelEndsWithTheFirstError: all clients work at the same time, and an error ends them.
func TestParallelEndsWithTheFirstError(t *testing.T) {
	const clients = 8
	broken := errors.New("broken")
	var arrived atomic.Int32
	all := make(chan struct{})
	err := suite.Parallel(t.Context(), 1<<30, clients, suite.NewRecorder(1), func(ctx context.Context, client, _ int) error {
		if arrived.Add(1) == clients {
			close(all)
		}
		<-all // that many operations run at once, or this never ends
		if client == 3 {
			return broken
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v, want the first", err)
	}
}

func TestLoopStops(t *testing.T) {
	broken := errors.New("broken")
	n := 0
	err := suite.Loop(t.Context(), 10, suite.NewRecorder(1), func(context.Context, int) error {
		if n++; n == 3 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) || n != 3 {
		t.Errorf("%d operations, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := suite.Loop(ctx, 1, suite.NewRecorder(1), func(context.Context, int) error { return nil }); err == nil {
		t.Error("an interrupted round looks complete")
	}
}

// TestSamplingIsRepresentative: of many operations the right part is timed.
func TestSamplingIsRepresentative(t *testing.T) {
	const n, every = 200_000, 50
	rec := suite.NewRecorder(every)
	w := rec.Worker()
	for range n {
		w.End(w.Begin())
	}
	if got := rec.Histogram().TotalCount(); got < n/every*9/10 || got > n/every*11/10 {
		t.Errorf("%d of %d operations were timed, want about one in %d", got, n, every)
	}
}

func TestRecorderKeepsExtremes(t *testing.T) {
	rec := suite.NewRecorder(1)
	w := rec.Worker()
	for _, d := range []time.Duration{-1, 0, time.Nanosecond, time.Millisecond, 100 * time.Hour} {
		w.Record(d)
	}
	h := rec.Histogram()
	if h.TotalCount() != 5 || h.Min() != 1 || float64(h.Max()) < 0.98*float64(suite.MaxLatency) {
		t.Errorf("%d latencies from %d to %d", h.TotalCount(), h.Min(), h.Max())
	}
}

func TestMarks(t *testing.T) {
	rec := suite.NewRecorder(1)
	rec.Mark(10)
	rec.Mark(20)
	m := rec.Marks()
	if len(m) != 2 || m[0].Done != 10 || m[1].Done != 20 || m[1].Elapsed < m[0].Elapsed {
		t.Errorf("the marks are %v", m)
	}
}

func TestSkipf(t *testing.T) {
	err := suite.Skipf("version %d", 3)
	if !errors.Is(err, suite.ErrSkip) || err.Error() != "version 3" {
		t.Errorf("%v", err)
	}
}

// BenchmarkExample runs an entry as other modules do.
func BenchmarkExample(b *testing.B) {
	suite.Bench(b, []suite.Entry{{
		Suite: "example", Case: "nothing", Contender: "none", Durability: suite.None, About: "do nothing",
		Start: func(context.Context, *suite.Env) (*suite.Round, error) {
			return &suite.Round{Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				return suite.Loop(ctx, n, rec, func(context.Context, int) error { return nil })
			}}, nil
		},
	}})
}

package footprint_test

import (
	"testing"

	"go.uber.org/goleak"

	contenders "github.com/mainstemdev/mainstem/bench/contenders/footprint"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/footprint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The server is what it should be in every case but the scale test. That of one
// durability is enough: it is the same program.
func TestServer(t *testing.T) {
	for _, e := range footprint.Entries(contenders.Factories()[0]) {
		if e.Scale || e.Case == "start/100k-keys" && testing.Short() {
			continue
		}
		t.Run(e.Case, func(t *testing.T) {
			if reason := e.Skip(&suite.Env{}); reason != "" {
				t.Fatal("the test needs the go command: ", reason)
			}
			measure(t, &e, min(e.Fixed, 40_000))
		})
	}
}

func measure(t *testing.T, e *suite.Entry, n int) {
	t.Helper()
	ctx := t.Context()
	r, err := e.Start(ctx, runnertest.Env(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if r.Close != nil {
		defer func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	if r.Prepare != nil {
		if err := r.Prepare(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	rec := suite.NewRecorder(1)
	if err := r.Run(ctx, n, rec); err != nil {
		t.Fatal(err)
	}
	if r.Check != nil {
		if err := r.Check(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if r.Metrics != nil {
		metrics, err := r.Metrics(ctx)
		if err != nil || len(metrics) == 0 || metrics[0].Value <= 0 {
			t.Fatal(metrics, err)
		}
		t.Log(metrics)
	} else if h := rec.Histogram(); h.TotalCount() != int64(n) {
		t.Fatal(h.TotalCount())
	}
}

func BenchmarkSuite(b *testing.B) { footprint.Run(b, contenders.Factories()...) }

func BenchmarkScale(b *testing.B) { footprint.RunScale(b, contenders.Factories()...) }

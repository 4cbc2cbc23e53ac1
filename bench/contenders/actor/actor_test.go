package actor_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	contenders "github.com/mainstemdev/mainstem/bench/contenders/actor"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every contender gives the right answers in every case but the scale tests, twice.
func TestContenders(t *testing.T) {
	for _, e := range contenders.Suite().Entries {
		if e.Scale {
			continue
		}
		t.Run(e.Case+"/"+e.Contender, func(t *testing.T) {
			for range 2 {
				small(t, &e)
			}
		})
	}
}

// small runs an entry with few operations, and all its checks.
func small(t *testing.T, e *suite.Entry) {
	t.Helper()
	ctx := t.Context()
	r, err := e.Start(ctx, &suite.Env{Dir: runnertest.Dir(t), Quick: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 2 {
		if r.Prepare != nil {
			if err := r.Prepare(ctx, 101); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Run(ctx, 101, suite.NewRecorder(1)); err != nil {
			t.Fatal(err)
		}
		if r.Check != nil {
			if err := r.Check(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if r.Metrics != nil {
			if m, err := r.Metrics(ctx); err != nil || len(m) == 0 {
				t.Fatal(m, err)
			}
		}
		if e.Fresh {
			return
		}
	}
}

package suite_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// scripted returns an entry that notes its calls and fails in the one called fail.
func scripted(calls *[]string, fail string) *suite.Entry {
	call := func(name string) error {
		*calls = append(*calls, name)
		if name == fail {
			return errors.New("broken")
		}
		return nil
	}
	return &suite.Entry{Suite: "s", Case: "c", Contender: "x", Start: func(context.Context, *suite.Env) (*suite.Round, error) {
		return &suite.Round{
			Prepare: func(_ context.Context, n int) error { return call(fmt.Sprint("prepare ", n)) },
			Run:     func(_ context.Context, n int, _ *suite.Recorder) error { return call(fmt.Sprint("run ", n)) },
			Check:   func(context.Context) error { return call("check") },
			Metrics: func(context.Context) ([]suite.Metric, error) {
				return []suite.Metric{{Name: "memory", Unit: "B"}}, call("metrics")
			},
			Close: func() error { return call("close") },
		}, call("start")
	}}
}

func TestTry(t *testing.T) {
	for fail, want := range map[string]string{
		"":          "start, prepare 3, run 3, check, metrics, prepare 3, run 3, check, metrics, close",
		"start":     "start",
		"prepare 3": "start, prepare 3, close",
		"run 3":     "start, prepare 3, run 3, close",
		"check":     "start, prepare 3, run 3, check, close",
		"metrics":   "start, prepare 3, run 3, check, metrics, close",
		"close":     "start, prepare 3, run 3, check, metrics, prepare 3, run 3, check, metrics, close",
	} {
		var calls []string
		err := suite.Try(t.Context(), scripted(&calls, fail), &suite.Env{}, 2, 3)
		if (err != nil) != (fail != "") || strings.Join(calls, ", ") != want {
			t.Errorf("fail %q: %v: %v, want %s", fail, err, calls, want)
		}
	}
	var calls []string
	e := scripted(&calls, "")
	e.Skip = func(*suite.Env) string { return "not here" }
	if err := suite.Try(t.Context(), e, &suite.Env{}, 1, 1); !errors.Is(err, suite.ErrSkip) || err.Error() != "not here" || len(calls) > 0 {
		t.Errorf("a skipped entry: %v, %v", err, calls)
	}
	e.Skip, e.Fixed = nil, 1
	if err := suite.Try(t.Context(), e, &suite.Env{}, 1, 9); err != nil || calls[2] != "run 1" {
		t.Errorf("a fixed entry: %v, %v", err, calls)
	}
}

// TestTryWantsMetrics: an entry that says it has metrics has one at least.
func TestTryWantsMetrics(t *testing.T) {
	e := &suite.Entry{Suite: "s", Case: "c", Contender: "x", Start: func(context.Context, *suite.Env) (*suite.Round, error) {
		return &suite.Round{
			Run:     func(context.Context, int, *suite.Recorder) error { return nil },
			Metrics: func(context.Context) ([]suite.Metric, error) { return nil, nil },
		}, nil
	}}
	if err := suite.Try(t.Context(), e, &suite.Env{}, 1, 1); err == nil || !strings.Contains(err.Error(), "metrics") {
		t.Errorf("no metrics: %v", err)
	}
}

package suite

import (
	"context"
	"errors"
	"fmt"
)

// Try does a few rounds of an entry as a runner would, without measuring: for the
// tests of suites and contenders. It returns the first error: one that matches
// [ErrSkip] if the entry cannot run here, that of a check if an answer was wrong. A
// round with Metrics must return some. Every round has n operations, or Fixed if that is less.
func Try(ctx context.Context, e *Entry, env *Env, rounds, n int) (err error) {
	if e.Skip != nil {
		if reason := e.Skip(env); reason != "" {
			return Skipf("%s", reason)
		}
	}
	r, err := e.Start(ctx, env)
	if err != nil {
		return err
	}
	if r.Close != nil {
		defer func() { err = errors.Join(err, r.Close()) }()
	}
	if e.Fixed > 0 {
		n = min(n, e.Fixed)
	}
	for range rounds {
		if err := tryRound(ctx, r, n); err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	return nil
}

func tryRound(ctx context.Context, r *Round, n int) error {
	if r.Prepare != nil {
		if err := r.Prepare(ctx, n); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	if err := r.Run(ctx, n, NewRecorder(1)); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if r.Check != nil {
		if err := r.Check(ctx); err != nil {
			return fmt.Errorf("check: %w", err)
		}
	}
	if r.Metrics != nil {
		metrics, err := r.Metrics(ctx)
		if err == nil && len(metrics) == 0 {
			err = errors.New("there are none")
		}
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}

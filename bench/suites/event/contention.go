package event

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mainstemdev/mainstem/bench/suite"
)

func isConflict(err error) bool { return errors.Is(err, ErrConflict) }

// startContention returns a round in which clients append to one stream. Exact
// appends expect the version that was asked for before, again and again until one
// succeeds.
func startContention(clients int, exact bool) func(context.Context, *fixture) (*suite.Round, error) {
	return func(_ context.Context, b *fixture) (*suite.Round, error) {
		var events []Event
		var conflicts atomic.Int64
		appendOne := func(ctx context.Context, stream string, i int) error {
			for {
				expected := AnyVersion
				if exact {
					info, err := b.store.Info(ctx, stream)
					if err != nil {
						return err
					}
					expected = int64(info.Version)
				}
				_, err := b.store.Append(ctx, stream, expected, events[i:i+1])
				if !exact || !isConflict(err) {
					return err
				}
				conflicts.Add(1)
			}
		}
		return &suite.Round{
			Prepare: func(ctx context.Context, n int) error {
				conflicts.Store(0)
				if err := b.newRound(ctx); err != nil {
					return err
				}
				events = numbered(n, b.round)
				return b.seed(ctx, []string{b.name(0)}, []Event{small})
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				stream := b.name(0)
				return suite.Parallel(ctx, n, clients, rec, func(ctx context.Context, _, i int) error { return appendOne(ctx, stream, i) })
			},
			Check: func(ctx context.Context) error { return checkContention(ctx, b, events) },
			Metrics: func(context.Context) ([]suite.Metric, error) {
				return []suite.Metric{{Name: "conflicts", Unit: "1/op", Value: float64(conflicts.Load()) / float64(max(len(events), 1))}}, nil
			},
		}, nil
	}
}

// checkContention checks that the stream has each event once, in any order.
func checkContention(ctx context.Context, b *fixture, events []Event) error {
	got, err := b.store.Load(ctx, b.name(0), 1, nil)
	if err != nil {
		return err
	}
	if len(got) != len(events)+1 {
		return fmt.Errorf("the stream has %d events, want %d", len(got), len(events)+1)
	}
	left := map[string]bool{}
	for _, e := range events {
		left[string(e.Data)] = true
	}
	for i, e := range got[1:] {
		if e.Version != uint64(i+2) {
			return fmt.Errorf("version %d follows %d", e.Version, i+1)
		}
		if !left[string(e.Data)] {
			return fmt.Errorf("event %.80q is there twice, or was never appended", e.Data)
		}
		delete(left, string(e.Data))
	}
	return refused(ctx, b, b.name(0), int64(len(events)))
}

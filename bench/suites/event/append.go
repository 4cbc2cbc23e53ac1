package event

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// marks is how many points the curve of a scale test has.
const marks = 100

// startAppend returns a round that appends events to a new stream each time.
func startAppend(events []Event, clients int) func(context.Context, *fixture) (*suite.Round, error) {
	return func(_ context.Context, b *fixture) (*suite.Round, error) {
		var streams []string
		return &suite.Round{
			Prepare: func(ctx context.Context, n int) error {
				err := b.newRound(ctx)
				streams = b.names(n)
				return err
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				return run(ctx, n, clients, rec, func(ctx context.Context, i int) error {
					_, err := b.store.Append(ctx, streams[i], AnyVersion, events)
					return err
				})
			},
			Check: func(ctx context.Context) error { return b.holds(ctx, streams, events) },
		}, nil
	}
}

// run does n operations on so many clients, with marks for a curve.
func run(ctx context.Context, n, clients int, rec *suite.Recorder, op func(ctx context.Context, i int) error) error {
	step := n/marks + 1
	marked := func(ctx context.Context, i int) error {
		if i%step == step-1 {
			rec.Mark(i) // of several clients, but for those that others are at
		}
		return op(ctx, i)
	}
	if clients > 1 {
		return suite.Parallel(ctx, n, clients, rec, func(ctx context.Context, _, i int) error { return marked(ctx, i) })
	}
	return suite.Loop(ctx, n, rec, marked)
}

// startExpected returns a round that appends to streams that have one event, each
// expected to be at version 1.
func startExpected(_ context.Context, b *fixture) (*suite.Round, error) {
	one := []Event{small}
	var streams []string
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) error {
			if err := b.newRound(ctx); err != nil {
				return err
			}
			streams = b.names(n)
			return b.seed(ctx, streams, one)
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
				_, err := b.store.Append(ctx, streams[i], 1, one)
				return err
			})
		},
		Check: func(ctx context.Context) error {
			if err := b.holds(ctx, streams, []Event{small, small}); err != nil {
				return err
			}
			if err := refused(ctx, b, streams[0], 1); err != nil {
				return err
			}
			got, err := b.store.Load(ctx, streams[0], 1, nil)
			if err != nil {
				return err
			}
			return sameEvents(got, []Event{small, small}, 1)
		},
	}, nil
}

// refused checks that an append at a version that has passed is a conflict.
func refused(ctx context.Context, b *fixture, stream string, passed int64) error {
	if _, err := b.store.Append(ctx, stream, passed, []Event{small}); !isConflict(err) {
		return fmt.Errorf("an append at version %d, which has passed: %v, want %w", passed, err, ErrConflict)
	}
	return nil
}

// startSameStream returns a round that appends one event after the other to one
// stream, by batches of size.
func startSameStream(size int) func(context.Context, *fixture) (*suite.Round, error) {
	return func(_ context.Context, b *fixture) (*suite.Round, error) {
		var events []Event
		var last uint64
		return &suite.Round{
			Prepare: func(ctx context.Context, n int) error {
				events = numbered(n*size, b.round+1)
				return b.newRound(ctx)
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				stream := b.name(0)
				return run(ctx, n, 1, rec, func(ctx context.Context, i int) (err error) {
					last, err = b.store.Append(ctx, stream, AnyVersion, events[i*size:(i+1)*size])
					return err
				})
			},
			Check: func(ctx context.Context) error {
				if last != uint64(len(events)) {
					return fmt.Errorf("the last append returned version %d, want %d", last, len(events))
				}
				return b.holds(ctx, []string{b.name(0)}, events)
			},
		}, nil
	}
}

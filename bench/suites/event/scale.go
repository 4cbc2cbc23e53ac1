package event

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// The sizes of the scale tests.
const (
	scaleBatch   = 100
	scaleStreams = 1000
	scaleLoads   = 10
	scaleLongest = 100_000 // events of the stream that is loaded
	scaleWorkers = 8
)

// withMemory adds what the process allocated in the round, and what it holds then.
func withMemory(start func(context.Context, *fixture) (*suite.Round, error)) func(context.Context, *fixture) (*suite.Round, error) {
	return func(ctx context.Context, b *fixture) (*suite.Round, error) {
		r, err := start(ctx, b)
		if err != nil {
			return nil, err
		}
		var before, after runtime.MemStats
		prepare, run := r.Prepare, r.Run
		r.Prepare = func(ctx context.Context, n int) error {
			err := prepare(ctx, n)
			runtime.GC()
			runtime.ReadMemStats(&before)
			return err
		}
		r.Run = func(ctx context.Context, n int, rec *suite.Recorder) error {
			err := run(ctx, n, rec)
			runtime.ReadMemStats(&after)
			return err
		}
		r.Metrics = func(context.Context) ([]suite.Metric, error) {
			return []suite.Metric{
				{Name: "allocated", Unit: "B", Value: float64(after.TotalAlloc - before.TotalAlloc)},
				{Name: "heap-in-use", Unit: "B", Value: float64(after.HeapInuse)},
			}, nil
		}
		return r, nil
	}
}

// startStreams returns a round that appends batches to so many streams in turn.
func startStreams(streams, size int) func(context.Context, *fixture) (*suite.Round, error) {
	return func(_ context.Context, b *fixture) (*suite.Round, error) {
		events := batch(size)
		var names []string
		var batches int
		return &suite.Round{
			Prepare: func(ctx context.Context, n int) error {
				batches = n
				err := b.newRound(ctx)
				names = b.names(min(streams, n))
				return err
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				return run(ctx, n, 1, rec, func(ctx context.Context, i int) error {
					_, err := b.store.Append(ctx, names[i%len(names)], AnyVersion, events)
					return err
				})
			},
			Check: func(ctx context.Context) error {
				var into []Recorded
				for _, i := range suite.Sample(len(names), mostChecked) {
					want := batches / len(names)
					if i < batches%len(names) {
						want++
					}
					var err error
					if into, err = b.store.Load(ctx, names[i], 1, into[:0]); err != nil {
						return err
					}
					if err := repeated(into, events, want); err != nil {
						return fmt.Errorf("stream %s: %w", names[i], err)
					}
				}
				return b.counts(ctx, batches*size)
			},
		}, nil
	}
}

// repeated checks that got is the events so many times, one after the other.
func repeated(got []Recorded, events []Event, times int) error {
	if len(got) != len(events)*times {
		return fmt.Errorf("%d events, want %d", len(got), len(events)*times)
	}
	for part := range times {
		at := part * len(events)
		if err := sameEvents(got[at:at+len(events)], events, uint64(at)+1); err != nil {
			return fmt.Errorf("from event %d on: %w", at, err)
		}
	}
	return nil
}

// startLongLoad returns a round that loads one long stream.
func startLongLoad(size int) func(context.Context, *fixture) (*suite.Round, error) {
	return func(ctx context.Context, b *fixture) (*suite.Round, error) {
		events := batch(size)
		if err := b.newRound(ctx); err != nil {
			return nil, err
		}
		stream := b.name(0)
		if err := b.seed(ctx, []string{stream}, events); err != nil {
			return nil, err
		}
		var got []Recorded
		return &suite.Round{
			Prepare: func(context.Context, int) error { got = got[:0]; return nil },
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				return run(ctx, n, 1, rec, func(ctx context.Context, _ int) (err error) {
					if got, err = b.store.Load(ctx, stream, 1, got[:0]); err == nil && len(got) != size {
						err = fmt.Errorf("%d events, want %d", len(got), size)
					}
					return err
				})
			},
			Check: func(context.Context) error {
				if len(got) == 0 {
					return errors.New("nothing was loaded")
				}
				return sameEvents(got, events, 1)
			},
		}, nil
	}
}

package event

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// keptLoads is how many answers of loads are kept for the check.
const keptLoads = 4

// startLoad returns a round that loads one stream of size events from a version on.
func startLoad(size int, from uint64) func(context.Context, *fixture) (*suite.Round, error) {
	return func(_ context.Context, b *fixture) (*suite.Round, error) {
		events := batch(size)
		var answers [][]Recorded
		var lengths int
		return &suite.Round{
			// Every round has a stream of its own, so that nothing can be remembered.
			Prepare: func(ctx context.Context, _ int) error {
				if err := b.newRound(ctx); err != nil {
					return err
				}
				return b.seed(ctx, []string{b.name(0)}, events)
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				stream, into := b.name(0), make([]Recorded, 0, size)
				answers, lengths = answers[:0], 0
				step, turn := n/keptLoads+1, rand.IntN(n/keptLoads+1)%n
				return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
					var err error
					if into, err = b.store.Load(ctx, stream, from, into[:0]); err != nil {
						return err
					}
					lengths += len(into)
					if i == turn {
						turn += step
						answers = append(answers, into)
						into = make([]Recorded, 0, size)
					}
					return nil
				})
			},
			Check: func(context.Context) error {
				if len(answers) == 0 {
					return errors.New("the round kept no answer: it was not run")
				}
				for _, got := range answers {
					if err := sameEvents(got, events[from-1:], from); err != nil {
						return fmt.Errorf("stream %s from version %d: %w", b.name(0), from, err)
					}
				}
				if each := size - int(from) + 1; lengths%each != 0 || lengths == 0 {
					return fmt.Errorf("all loads together brought %d events, which is no multiple of %d", lengths, each)
				}
				return nil
			},
		}, nil
	}
}

// startInfo returns a round that asks for a stream, or for the last position.
func startInfo(last bool) func(context.Context, *fixture) (*suite.Round, error) {
	return func(_ context.Context, b *fixture) (*suite.Round, error) {
		const size = 50
		var info Info
		var position uint64
		return &suite.Round{
			Prepare: func(ctx context.Context, _ int) error {
				if err := b.newRound(ctx); err != nil {
					return err
				}
				return b.seed(ctx, []string{b.name(0)}, batch(size+b.round))
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				stream := b.name(0)
				return suite.Loop(ctx, n, rec, func(ctx context.Context, _ int) (err error) {
					if last {
						position, err = b.store.LastPosition(ctx)
						return err
					}
					info, err = b.store.Info(ctx, stream)
					return err
				})
			},
			Check: func(ctx context.Context) error {
				want := uint64(size + b.round)
				if !last {
					if info.Version != want || info.Count != want {
						return fmt.Errorf("stream %s is at version %d with %d events, want %d of both", b.name(0), info.Version, info.Count, want)
					}
					return nil
				}
				events, err := b.store.Load(ctx, b.name(0), want, nil)
				if err != nil {
					return err
				}
				if len(events) != 1 || events[0].Position != position {
					return fmt.Errorf("the last position is %d, and the last event of the only stream is %+v", position, events)
				}
				return nil
			},
		}, nil
	}
}

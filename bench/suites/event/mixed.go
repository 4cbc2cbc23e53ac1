package event

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/mainstemdev/mainstem/bench/suite"
)

const (
	mixedStreams = 100
	mixedEvents  = 10
)

// step is one operation of a mix: a load of a seeded stream, or an append.
type step struct {
	write  bool
	stream int
}

func steps(n, writePercent, streams int) []step {
	all := make([]step, n)
	for i := range all {
		all[i] = step{rand.IntN(100) < writePercent, rand.IntN(streams)}
	}
	return all
}

// startMixed returns a round of loads of seeded streams and appends to new ones.
func startMixed(writePercent, streams int) func(context.Context, *fixture) (*suite.Round, error) {
	return func(_ context.Context, b *fixture) (*suite.Round, error) {
		events, one := batch(mixedEvents), []Event{small}
		var seeded, names, written []string
		var mix []step
		var answers sync.Map // of some loads, by number
		return &suite.Round{
			Prepare: func(ctx context.Context, n int) error {
				if err := b.newRound(ctx); err != nil {
					return err
				}
				all := b.names(streams + n)
				seeded, names, written = all[:streams], all[streams:], nil
				mix = steps(n, writePercent, streams)
				for i, s := range mix {
					if s.write {
						written = append(written, names[i])
					}
				}
				answers.Clear()
				return b.seed(ctx, seeded, events)
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				every := n/mostChecked + 1
				return run(ctx, n, runtime.GOMAXPROCS(0), rec, func(ctx context.Context, i int) error {
					if mix[i].write {
						_, err := b.store.Append(ctx, names[i], AnyVersion, one)
						return err
					}
					got, err := b.store.Load(ctx, seeded[mix[i].stream], 1, make([]Recorded, 0, mixedEvents))
					if i%every == 0 {
						answers.Store(i, got)
					}
					return err
				})
			},
			Check: func(ctx context.Context) (err error) {
				answers.Range(func(i, got any) bool {
					if err = sameEvents(got.([]Recorded), events, 1); err != nil {
						err = fmt.Errorf("load number %d: %w", i, err)
					}
					return err == nil
				})
				if err != nil {
					return err
				}
				for _, i := range suite.Sample(len(written), mostChecked) {
					got, err := b.store.Load(ctx, written[i], 1, nil)
					if err != nil {
						return err
					}
					if err := sameEvents(got, one, 1); err != nil {
						return fmt.Errorf("stream %s: %w", written[i], err)
					}
				}
				return b.counts(ctx, streams*mixedEvents+len(written))
			},
		}, nil
	}
}

// startLoadWhileWriting returns a round in which one operation in three appends to
// a stream that the others load.
func startLoadWhileWriting(_ context.Context, b *fixture) (*suite.Round, error) {
	events, one := batch(mixedEvents), []Event{small}
	var seeded []string
	var mix []step
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) error {
			if err := b.newRound(ctx); err != nil {
				return err
			}
			seeded, mix = b.names(mixedStreams), steps(n, 33, mixedStreams)
			return b.seed(ctx, seeded, events)
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			return run(ctx, n, runtime.GOMAXPROCS(0), rec, func(ctx context.Context, i int) error {
				if mix[i].write {
					_, err := b.store.Append(ctx, seeded[mix[i].stream], AnyVersion, one)
					return err
				}
				got, err := b.store.Load(ctx, seeded[mix[i].stream], 1, make([]Recorded, 0, 4*mixedEvents))
				if err == nil && len(got) < mixedEvents {
					err = fmt.Errorf("stream %s has %d events, want %d or more", seeded[mix[i].stream], len(got), mixedEvents)
				}
				return err
			})
		},
		Check: func(ctx context.Context) error {
			want := make([][]Event, mixedStreams)
			for i := range want {
				want[i] = events[:mixedEvents:mixedEvents]
			}
			total := mixedStreams * mixedEvents
			for _, s := range mix {
				if s.write {
					want[s.stream] = append(want[s.stream], small)
					total++
				}
			}
			for i, stream := range seeded {
				got, err := b.store.Load(ctx, stream, 1, nil)
				if err != nil {
					return err
				}
				if err := sameEvents(got, want[i], 1); err != nil {
					return fmt.Errorf("stream %s: %w", stream, err)
				}
			}
			return b.counts(ctx, total)
		},
	}, nil
}

package event

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
)

const (
	feedEvents = 10_000 // events that are fed
	feedQuick  = 2_000  // of which pages are read in quick runs
	feedPage   = 1000
	feedBatch  = 100
)

// patience is how long an append may take to arrive at a subscription. Tests shorten it.
var patience = 30 * time.Second

// seedFeed appends n events that are fed, or a few more: batches of 100, a stream for
// each. It returns their positions.
func seedFeed(ctx context.Context, b *fixture, n int) ([]uint64, error) {
	if err := b.newRound(ctx); err != nil {
		return nil, err
	}
	streams := (n + feedBatch - 1) / feedBatch
	if err := b.seed(ctx, b.names(streams), batch(feedBatch)); err != nil {
		return nil, err
	}
	return allPositions(ctx, b, streams*feedBatch)
}

// startPages returns a round that reads pages from any place of the feed.
func startPages(_ context.Context, b *fixture) (*suite.Round, error) {
	events := feedEvents
	if b.quick {
		events = feedQuick
	}
	var positions []uint64 // of all events
	var after []int
	var kept [][]Recorded
	var at []int
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) (err error) {
			if positions, err = seedFeed(ctx, b, events); err != nil {
				return err
			}
			after = make([]int, n)
			for i := range after {
				after[i] = rand.IntN(events - feedPage)
			}
			return nil
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			kept, at = kept[:0], at[:0]
			into := make([]Recorded, 0, feedPage)
			step, turn := n/keptLoads+1, rand.IntN(n/keptLoads+1)%n
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
				var err error
				if into, err = b.store.Feed(ctx, positions[after[i]], feedPage, into[:0]); err != nil {
					return err
				}
				if i == turn {
					turn += step
					kept, at = append(kept, into), append(at, after[i])
					into = make([]Recorded, 0, feedPage)
				}
				return nil
			})
		},
		Check: func(context.Context) error {
			if len(kept) == 0 {
				return errors.New("the round kept no answer: it was not run")
			}
			for j, page := range kept {
				if err := checkPage(page, positions[at[j]+1:], batch(feedBatch)); err != nil {
					return fmt.Errorf("the page after %d: %w", positions[at[j]], err)
				}
			}
			return nil
		},
	}, nil
}

// allPositions reads the whole feed of the round and checks its order.
func allPositions(ctx context.Context, b *fixture, n int) ([]uint64, error) {
	if err := b.counts(ctx, n); err != nil {
		return nil, err
	}
	positions := make([]uint64, 0, n)
	for last := b.began; len(positions) < n; last = positions[len(positions)-1] {
		page, err := b.store.Feed(ctx, last, feedPage, nil)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			positions = append(positions, e.Position)
		}
	}
	return positions, nil
}

// checkPage checks that page is a full one with these positions and the events of
// streams that all hold the same.
func checkPage(page []Recorded, positions []uint64, events []Event) error {
	if len(page) != feedPage {
		return fmt.Errorf("%d events, want %d", len(page), feedPage)
	}
	for i, e := range page {
		if e.Position != positions[i] {
			return fmt.Errorf("event %d has position %d, want %d", i, e.Position, positions[i])
		}
		if e.Version < 1 || e.Version > uint64(len(events)) {
			return fmt.Errorf("event %d has version %d of stream %s", i, e.Version, e.Stream)
		}
		if err := sameEvent(e.Event, events[e.Version-1]); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

func subscriber(b *fixture) (Subscriber, error) {
	if s, ok := b.store.(Subscriber); ok {
		return s, nil
	}
	return nil, suite.Skipf("the contender does not tell of appends")
}

// startCatchUp returns a round in which a subscription gets as many events as the
// round has operations.
func startCatchUp(_ context.Context, b *fixture) (*suite.Round, error) {
	s, err := subscriber(b)
	if err != nil {
		return nil, err
	}
	var got []Recorded
	var positions []uint64
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) (err error) {
			got = make([]Recorded, 0, n)
			positions, err = seedFeed(ctx, b, min(n, feedEvents)) // in Go benchmarks n may be more
			return err
		},
		Run: func(ctx context.Context, n int, _ *suite.Recorder) error {
			for len(got) < n {
				if err := catchUp(ctx, b, s, min(len(positions), n-len(got)), &got); err != nil {
					return err
				}
			}
			return nil
		},
		Check: func(context.Context) error {
			events := batch(feedBatch)
			for i, e := range got {
				if want := positions[i%len(positions)]; e.Position != want {
					return fmt.Errorf("event %d has position %d, want %d", i, e.Position, want)
				}
				if e.Version < 1 || e.Version > feedBatch {
					return fmt.Errorf("event %d has version %d", i, e.Version)
				}
				if err := sameEvent(e.Event, events[e.Version-1]); err != nil {
					return fmt.Errorf("event %d: %w", i, err)
				}
			}
			return nil
		},
	}, nil
}

// catchUp subscribes from where the round began until n events have come.
func catchUp(ctx context.Context, b *fixture, s Subscriber, n int, got *[]Recorded) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no more events within %v", patience))
	defer cancel()
	want := len(*got) + n
	err := s.Subscribe(ctx, b.began, func(e *Recorded) {
		if len(*got) < want {
			kept := *e
			kept.Data = append([]byte(nil), e.Data...)
			if *got = append(*got, kept); len(*got) == want {
				cancel()
			}
		}
	})
	if len(*got) == want {
		return nil
	}
	return fmt.Errorf("the subscription ended after %d of %d events: %w", len(*got)-want+n, n, errors.Join(err, context.Cause(ctx)))
}

package event

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// arrival is what a subscription was told.
type arrival struct {
	event Recorded
	at    time.Time
}

// startSubscribe returns a round that appends an event and waits until a
// subscription, which runs all the time, has been told.
func startSubscribe(ctx context.Context, b *fixture) (*suite.Round, error) {
	s, err := subscriber(b)
	if err != nil {
		return nil, err
	}
	if err := b.newRound(ctx); err != nil {
		return nil, err
	}
	sub := subscribe(ctx, b, s)
	if err := sub.warm(ctx, b); err != nil {
		return nil, err
	}
	var events []Event
	var got []Recorded
	rounds := 0
	return &suite.Round{
		Prepare: func(_ context.Context, n int) error {
			rounds++
			events, got = numbered(n, rounds), make([]Recorded, 0, n)
			return nil
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			worker, stream := rec.Worker(), b.name(rounds)
			for i := range n {
				began := time.Now()
				if _, err := b.store.Append(ctx, stream, AnyVersion, events[i:i+1]); err != nil {
					return err
				}
				a, err := sub.next(ctx)
				if err != nil {
					return fmt.Errorf("event %d was appended: %w", i, err)
				}
				worker.Record(a.at.Sub(began))
				got = append(got, a.event)
			}
			return nil
		},
		Check: func(ctx context.Context) error {
			if err := sameEvents(got, events, 1); err != nil {
				return fmt.Errorf("what the subscription was told: %w", err)
			}
			stored, err := b.store.Load(ctx, b.name(rounds), 1, nil)
			if err != nil {
				return err
			}
			return sameEvents(stored, events, 1)
		},
	}, nil
}

// subscription is a running one.
type subscription struct {
	arrivals chan arrival
	ended    chan error
	late     *time.Timer
}

// subscribe starts a subscription, which ends with the fixture.
func subscribe(ctx context.Context, b *fixture, s Subscriber) *subscription {
	ctx, cancel := context.WithCancel(ctx)
	sub := &subscription{arrivals: make(chan arrival, 16), ended: make(chan error, 1), late: time.NewTimer(patience)}
	after := b.began
	go func() {
		sub.ended <- s.Subscribe(ctx, after, func(e *Recorded) {
			a := arrival{*e, time.Now()}
			a.event.Data = append([]byte(nil), e.Data...)
			select {
			case sub.arrivals <- a:
			case <-ctx.Done():
			}
		})
	}()
	b.end = append(b.end, func() error {
		cancel()
		sub.late.Stop()
		if err := <-sub.ended; err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("subscription: %w", err)
		}
		return nil
	})
	return sub
}

// warm waits until the subscription is told of a first event.
func (sub *subscription) warm(ctx context.Context, b *fixture) error {
	if _, err := b.store.Append(ctx, b.name(0), AnyVersion, []Event{small}); err != nil {
		return err
	}
	_, err := sub.next(ctx)
	return err
}

// next returns the next event that the subscription is told.
func (sub *subscription) next(ctx context.Context) (arrival, error) {
	sub.late.Reset(patience)
	select {
	case a := <-sub.arrivals:
		return a, nil
	case err := <-sub.ended:
		sub.ended <- nil
		return arrival{}, fmt.Errorf("the subscription ended: %v", err)
	case <-sub.late.C:
		return arrival{}, fmt.Errorf("the subscription was not told within %v", patience)
	case <-ctx.Done():
		return arrival{}, ctx.Err()
	}
}

package domain

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// checked is how many orders of a round are loaded for the check.
const checked = 64

// fixture is a domain with what a case does to it.
type fixture struct {
	domain Domain
	round  int
	orders []string // of the round
}

// newRound removes the orders of the round before, and names n new ones.
func (b *fixture) newRound(ctx context.Context, n int) error {
	if b.round > 0 {
		if err := b.domain.Clear(ctx); err != nil {
			return fmt.Errorf("clear: %w", err)
		}
	}
	b.round++
	b.orders = make([]string, n)
	for i := range b.orders {
		b.orders[i] = strconv.Itoa(b.round) + "x" + strconv.Itoa(i)
	}
	return nil
}

// save saves the orders of the round, each with so many items.
func (b *fixture) save(ctx context.Context, items int) error {
	return suite.Parallel(ctx, len(b.orders), min(16, len(b.orders)), suite.NewRecorder(1), func(ctx context.Context, _, i int) error {
		return b.domain.Save(ctx, b.orders[i], items)
	})
}

// hold checks that the orders have so many items, and nothing else.
func (b *fixture) hold(ctx context.Context, items int) error {
	for _, i := range suite.Sample(len(b.orders), checked) {
		got, err := b.domain.Load(ctx, b.orders[i])
		if err != nil {
			return fmt.Errorf("load order %s: %w", b.orders[i], err)
		}
		if err := same(got, items); err != nil {
			return fmt.Errorf("order %s: %w", b.orders[i], err)
		}
	}
	return nil
}

func same(got Order, items int) error {
	if want := (Order{Items: items, Cents: items * Cents, Version: uint64(items)}); got != want {
		return fmt.Errorf("%+v, want %+v", got, want)
	}
	return nil
}

// startSave returns a round that saves new orders.
func startSave(items int) func(*fixture) *suite.Round {
	return func(b *fixture) *suite.Round {
		return &suite.Round{
			Prepare: b.newRound,
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error { return b.domain.Save(ctx, b.orders[i], items) })
			},
			Check: func(ctx context.Context) error { return b.hold(ctx, items) },
		}
	}
}

// startLoad returns a round that loads one order again and again.
func startLoad(items int, snapshot bool) func(*fixture) *suite.Round {
	return func(b *fixture) *suite.Round {
		load := b.domain.Load
		if snapshot {
			load = b.domain.LoadSnapshot
		}
		return &suite.Round{
			Prepare: func(ctx context.Context, _ int) error {
				if err := b.newRound(ctx, 1); err != nil {
					return err
				}
				return b.save(ctx, items)
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				return suite.Loop(ctx, n, rec, func(ctx context.Context, _ int) error {
					got, err := load(ctx, b.orders[0])
					if err == nil {
						err = same(got, items)
					}
					return err
				})
			},
			Check: func(ctx context.Context) error { // what was loaded is what is there, not what was once
				if err := b.domain.Add(ctx, b.orders[0]); err != nil {
					return err
				}
				got, err := load(ctx, b.orders[0])
				if err != nil {
					return err
				}
				return same(got, items+1)
			},
		}
	}
}

// startLifeCycle returns a round of orders that are saved, loaded, and saved again.
func startLifeCycle(b *fixture) *suite.Round {
	return &suite.Round{
		Prepare: b.newRound,
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
				if err := b.domain.Save(ctx, b.orders[i], 3); err != nil {
					return err
				}
				return b.domain.Add(ctx, b.orders[i])
			})
		},
		Check: func(ctx context.Context) error { return b.hold(ctx, 4) },
	}
}

// startDispatch returns a round of commands, each to an order of its own.
func startDispatch(p Pipeline, clients int) func(*fixture) *suite.Round {
	return func(b *fixture) *suite.Round {
		before, sent := 0, 0
		r := &suite.Round{
			Prepare: func(ctx context.Context, n int) error {
				before, sent = b.domain.Handled(), n
				if p < Aggregate {
					return b.newRound(ctx, 1)
				}
				if err := b.newRound(ctx, n); err != nil {
					return err
				}
				return b.save(ctx, 1)
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				do := func(ctx context.Context, i int) error { return b.domain.Dispatch(ctx, p, b.orders[i%len(b.orders)]) }
				if clients > 1 {
					return suite.Parallel(ctx, n, clients, rec, func(ctx context.Context, _, i int) error { return do(ctx, i) })
				}
				return suite.Loop(ctx, n, rec, do)
			},
			Check: func(ctx context.Context) error { return b.hold(ctx, 2) },
		}
		if p < Aggregate {
			r.Check = func(context.Context) error {
				if n := b.domain.Handled() - before; n != sent {
					return fmt.Errorf("the handler had %d commands, want %d", n, sent)
				}
				return nil
			}
		}
		return r
	}
}

package kv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mainstemdev/mainstem/bench/suite"
)

const swapTable, swapKey = "default", "swapped"

func swapper(b *fixture) (Swapper, error) {
	if s, ok := b.store.(Swapper); ok {
		return s, nil
	}
	return nil, suite.Skipf("the contender cannot compare and set")
}

func startSwap(_ context.Context, b *fixture) (*suite.Round, error) {
	s, err := swapper(b)
	if err != nil {
		return nil, err
	}
	var values [][]byte
	var began, ended Version
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) error {
			b.round++
			values = make([][]byte, n)
			for i := range values {
				values[i] = value(i, b.round)
			}
			if err := b.store.Set(ctx, swapTable, swapKey, value(0, 0)); err != nil {
				return err
			}
			var err error
			began, err = s.Read(ctx, swapTable, swapKey)
			return err
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			ended = began
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) (err error) {
				ended, err = s.Swap(ctx, swapTable, swapKey, ended, values[i])
				return err
			})
		},
		Check: func(ctx context.Context) error {
			want := values[len(values)-1]
			got, err := b.store.Get(ctx, swapTable, swapKey)
			if err != nil {
				return err
			}
			if err := same(swapKey, got, want); err != nil {
				return err
			}
			// Who comes with a version that has passed must be refused, and change nothing.
			if _, err := s.Swap(ctx, swapTable, swapKey, began, []byte("stale")); !errors.Is(err, ErrConflict) {
				return fmt.Errorf("a compare-and-set at a version that has passed: %v, want %w", err, ErrConflict)
			}
			if got, err = b.store.Get(ctx, swapTable, swapKey); err != nil {
				return err
			}
			return same(swapKey, got, want)
		},
	}, nil
}

// startCount returns a round in which clients add to one counter.
func startCount(clients int) func(context.Context, *fixture) (*suite.Round, error) {
	return func(_ context.Context, b *fixture) (*suite.Round, error) {
		s, err := swapper(b)
		if err != nil {
			return nil, err
		}
		var ops int
		var conflicts atomic.Int64
		add := func(ctx context.Context) error {
			for {
				old, err := s.Read(ctx, swapTable, swapKey)
				if err != nil {
					return err
				}
				if len(old.Value) != 8 {
					return fmt.Errorf("the counter is %.40q", old.Value)
				}
				next := binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(old.Value)+1)
				_, err = s.Swap(ctx, swapTable, swapKey, old, next)
				if !errors.Is(err, ErrConflict) {
					return err
				}
				conflicts.Add(1)
			}
		}
		return &suite.Round{
			Prepare: func(ctx context.Context, n int) error {
				ops = n
				conflicts.Store(0)
				return b.store.Set(ctx, swapTable, swapKey, make([]byte, 8))
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				return suite.Parallel(ctx, n, clients, rec, func(ctx context.Context, _, _ int) error { return add(ctx) })
			},
			Check: func(ctx context.Context) error {
				got, err := b.store.Get(ctx, swapTable, swapKey)
				if err != nil {
					return err
				}
				return same(swapKey, got, binary.BigEndian.AppendUint64(nil, uint64(ops)))
			},
			Metrics: func(context.Context) ([]suite.Metric, error) {
				return []suite.Metric{{Name: "conflicts", Unit: "1/op", Value: float64(conflicts.Load()) / float64(max(ops, 1))}}, nil
			},
		}, nil
	}
}

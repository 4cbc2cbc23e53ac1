package kv

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// marks is how many points the curve of a scale test has.
const marks = 100

func startSet(clients int) func(context.Context, *fixture) (*suite.Round, error) {
	return func(_ context.Context, b *fixture) (*suite.Round, error) {
		var data []Pair
		return &suite.Round{
			Prepare: func(ctx context.Context, n int) error {
				data = pairs(n, 0)
				return b.newTable(ctx)
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
				if clients > 1 {
					return suite.Parallel(ctx, n, clients, rec, func(ctx context.Context, _, i int) error {
						return b.store.Set(ctx, b.table, data[i].Key, data[i].Value)
					})
				}
				step := n/marks + 1
				return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
					if i%step == step-1 {
						rec.Mark(i)
					}
					return b.store.Set(ctx, b.table, data[i].Key, data[i].Value)
				})
			},
			Check: func(ctx context.Context) error { return b.holds(ctx, b.table, data, 1) },
		}, nil
	}
}

func startSetGet(_ context.Context, b *fixture) (*suite.Round, error) {
	var data []Pair
	var answers kept[[]byte]
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) error {
			answers.plan(n, mostChecked)
			err := b.newTable(ctx)
			data = pairs(n, b.round)
			return err
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
				if err := b.store.Set(ctx, b.table, data[i].Key, data[i].Value); err != nil {
					return err
				}
				got, err := b.store.Get(ctx, b.table, data[i].Key)
				answers.add(i, got)
				return err
			})
		},
		Check: func(ctx context.Context) error {
			err := answers.check(func(i int, got []byte) error { return same(data[i].Key, got, data[i].Value) })
			if err != nil {
				return err
			}
			return b.holds(ctx, b.table, data, 1)
		},
	}, nil
}

func startGet(_ context.Context, b *fixture) (*suite.Round, error) {
	const table, key = "default", "test-key"
	var want []byte
	var answers kept[[]byte]
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) error {
			answers.plan(n, mostChecked)
			b.round++
			want = strconv.AppendInt([]byte("test-value-"), int64(b.round), 10)
			return b.store.Set(ctx, table, key, want)
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
				got, err := b.store.Get(ctx, table, key)
				answers.add(i, got)
				return err
			})
		},
		Check: func(context.Context) error {
			return answers.check(func(_ int, got []byte) error { return same(key, got, want) })
		},
	}, nil
}

func startDelete(_ context.Context, b *fixture) (*suite.Round, error) {
	var data []Pair
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) error {
			data = pairs(n, 0)
			if err := b.newTable(ctx); err != nil {
				return err
			}
			return b.fill(ctx, b.table, data)
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
				return b.store.Delete(ctx, b.table, data[i].Key)
			})
		},
		Check: func(ctx context.Context) error {
			for _, i := range suite.Sample(len(data), mostChecked) {
				if err := b.gone(ctx, b.table, data[i].Key); err != nil {
					return err
				}
			}
			if len(data) > mostCounted {
				return nil
			}
			if err := b.counts(ctx, b.table, 1); err != nil {
				return fmt.Errorf("after %d keys were deleted: %w", len(data), err)
			}
			return nil
		},
	}, nil
}

package kv

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// choices is how many different sets of keys a round of get-many reads in turn.
const choices = 64

func startGetMany(_ context.Context, b *fixture) (*suite.Round, error) {
	const table = "default"
	var data []Pair
	var sets [choices][]int
	var keys [choices][]string
	var answers kept[[][]byte]
	for c := range sets {
		sets[c] = rand.Perm(tableKeys)[:manyKeys]
	}
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) error {
			answers.plan(n, mostChecked)
			b.round++
			data = pairs(tableKeys, b.round)
			for c := range sets {
				keys[c] = keys[c][:0]
				for _, i := range sets[c] {
					keys[c] = append(keys[c], data[i].Key)
				}
			}
			return b.fill(ctx, table, data)
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
				got, err := b.store.GetMany(ctx, table, keys[i%choices])
				answers.add(i, got)
				return err
			})
		},
		Check: func(context.Context) error {
			return answers.check(func(i int, got [][]byte) error {
				if len(got) != manyKeys {
					return fmt.Errorf("got %d values, want %d", len(got), manyKeys)
				}
				for j, at := range sets[i%choices] {
					if err := same(data[at].Key, got[j], data[at].Value); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}, nil
}

func startSetMany(_ context.Context, b *fixture) (*suite.Round, error) {
	var data []Pair
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) error {
			data = pairs(n*manyKeys, 0)
			return b.newTable(ctx)
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			step := n/marks + 1
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
				if i%step == step-1 {
					rec.Mark(i)
				}
				return b.store.SetMany(ctx, b.table, data[i*manyKeys:(i+1)*manyKeys])
			})
		},
		Check: func(ctx context.Context) error { return b.holds(ctx, b.table, data, 1) },
	}, nil
}

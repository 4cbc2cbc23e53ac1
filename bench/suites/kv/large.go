package kv

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// keptLarge is how many large answers are kept for the check.
const keptLarge = 4

// large returns the bytes of a large value, to be stamped.
func large() []byte {
	v := make([]byte, largeBytes)
	for i := range v {
		v[i] = byte(i)
	}
	return v
}

// stamp makes a large value one of its own.
func stamp(v []byte, round, i int) []byte {
	binary.LittleEndian.PutUint32(v, uint32(round))
	binary.LittleEndian.PutUint32(v[4:], uint32(i))
	return v
}

// fits returns an error if the store cannot hold large values.
func fits(ctx context.Context, b *fixture) error {
	if s, ok := b.store.(Bounded); ok {
		return s.Fits(ctx, largeBytes)
	}
	return nil
}

// startLarge returns a round that writes large values to new keys, and reads or
// deletes them.
func startLarge(write, read, remove bool) func(context.Context, *fixture) (*suite.Round, error) {
	return func(ctx context.Context, b *fixture) (*suite.Round, error) {
		if err := fits(ctx, b); err != nil {
			return nil, err
		}
		var keys []string
		var answers kept[[]byte]
		buf, expected := large(), large()
		op := func(ctx context.Context, i int) error {
			if write {
				if err := b.store.Set(ctx, b.table, keys[i], stamp(buf, b.round, i)); err != nil {
					return err
				}
			}
			if read {
				got, err := b.store.Get(ctx, b.table, keys[i])
				if err != nil {
					return err
				}
				answers.add(i, got)
			}
			if remove {
				return b.store.Delete(ctx, b.table, keys[i])
			}
			return nil
		}
		return &suite.Round{
			Prepare: func(ctx context.Context, n int) error {
				answers.plan(n, keptLarge)
				keys = make([]string, n)
				for i := range keys {
					keys[i] = "key-" + strconv.Itoa(i)
				}
				return b.newTable(ctx)
			},
			Run: func(ctx context.Context, n int, rec *suite.Recorder) error { return suite.Loop(ctx, n, rec, op) },
			Check: func(ctx context.Context) error {
				if read {
					err := answers.check(func(i int, got []byte) error { return same(keys[i], got, stamp(expected, b.round, i)) })
					if err != nil {
						return err
					}
				}
				return checkLarge(ctx, b, keys, expected, remove)
			},
		}, nil
	}
}

// checkLarge checks that the keys are there with their values, or gone.
func checkLarge(ctx context.Context, b *fixture, keys []string, expected []byte, removed bool) error {
	for i, key := range keys {
		if removed {
			if err := b.gone(ctx, b.table, key); err != nil {
				return err
			}
			continue
		}
		got, err := b.store.Get(ctx, b.table, key)
		if err != nil {
			return fmt.Errorf("read back key %s: %w", key, err)
		}
		if err := same(key, got, stamp(expected, b.round, i)); err != nil {
			return err
		}
	}
	return nil
}

func startGetLarge(ctx context.Context, b *fixture) (*suite.Round, error) {
	const table, key = "default", "large"
	if err := fits(ctx, b); err != nil {
		return nil, err
	}
	want := large()
	var answers kept[[]byte]
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) error {
			answers.plan(n, keptLarge)
			b.round++
			return b.store.Set(ctx, table, key, stamp(want, b.round, 0))
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

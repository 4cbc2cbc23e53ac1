package kv

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// seeded is many tables with the same number of keys, and what they hold.
type seeded struct {
	b    *fixture
	next int        // number of the next key that is added
	keys [][]string // of each table, in order
}

func seedTables(ctx context.Context, b *fixture) (*seeded, error) {
	s := &seeded{b: b, next: tableKeys}
	data := pairs(tableKeys, 0)
	for t := range b.tables {
		if err := b.fill(ctx, tableName(t), data); err != nil {
			return nil, err
		}
		keys := make([]string, tableKeys)
		for i := range data {
			keys[i] = data[i].Key
		}
		slices.Sort(keys)
		s.keys = append(s.keys, keys)
	}
	return s, nil
}

func tableName(t int) string { return "table-" + strconv.Itoa(t) }

// change replaces one key of each table by another, so that what was listed in
// the round before is wrong in this one.
func (s *seeded) change(ctx context.Context) error {
	for t, keys := range s.keys {
		i := rand.IntN(len(keys))
		if err := s.b.store.Delete(ctx, tableName(t), keys[i]); err != nil {
			return err
		}
		keys[i] = "key-" + strconv.Itoa(s.next)
		if err := s.b.store.Set(ctx, tableName(t), keys[i], value(s.next, 0)); err != nil {
			return err
		}
		slices.Sort(keys)
	}
	s.next++
	return nil
}

// startTables returns a round that asks for keys of any table.
func startTables(ctx context.Context, b *fixture, ask func(ctx context.Context, table string) ([]string, error), judge func(got, all []string) error) (*suite.Round, error) {
	s, err := seedTables(ctx, b)
	if err != nil {
		return nil, err
	}
	var tables []int
	var answers kept[[]string]
	names := make([]string, b.tables)
	for t := range names {
		names[t] = tableName(t)
	}
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) error {
			answers.plan(n, mostChecked)
			tables = make([]int, n)
			for i := range tables {
				tables[i] = rand.IntN(b.tables)
			}
			if err := s.change(ctx); err != nil {
				return err
			}
			// The first question after writes pays for them, in some stores: in a round of a
			// few questions that would be most of what is measured.
			_, err := ask(ctx, names[0])
			return err
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
				got, err := ask(ctx, names[tables[i]])
				answers.add(i, got)
				return err
			})
		},
		Check: func(context.Context) error {
			return answers.check(func(i int, got []string) error {
				if err := judge(got, s.keys[tables[i]]); err != nil {
					return fmt.Errorf("%s: %w", names[tables[i]], err)
				}
				return nil
			})
		},
	}, nil
}

func startList(ctx context.Context, b *fixture) (*suite.Round, error) {
	return startTables(ctx, b, b.store.Keys, func(got, all []string) error {
		got = slices.Sorted(slices.Values(got))
		return sameKeys(got, all)
	})
}

func startPage(ctx context.Context, b *fixture) (*suite.Round, error) {
	ask := func(ctx context.Context, table string) ([]string, error) {
		return b.store.Page(ctx, table, pageKeys, pageKeys)
	}
	return startTables(ctx, b, ask, func(got, all []string) error {
		return sameKeys(got, all[pageKeys:2*pageKeys])
	})
}

func sameKeys(got, want []string) error {
	if slices.Equal(got, want) {
		return nil
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("got %d keys, want %d; the first that differs is number %d: %q, want %q", len(got), len(want), i, got[i], want[i])
		}
	}
	return fmt.Errorf("got %d keys, want %d", len(got), len(want))
}

// startSpread returns a round that reads any key of any table.
func startSpread(ctx context.Context, b *fixture) (*suite.Round, error) {
	s, err := seedTables(ctx, b)
	if err != nil {
		return nil, err
	}
	type place struct{ table, key string }
	var places []place
	var answers kept[[]byte]
	return &suite.Round{
		Prepare: func(_ context.Context, n int) error {
			answers.plan(n, mostChecked)
			places = make([]place, n)
			for i := range places {
				t := rand.IntN(b.tables)
				places[i] = place{tableName(t), s.keys[t][rand.IntN(tableKeys)]}
			}
			return nil
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
				got, err := b.store.Get(ctx, places[i].table, places[i].key)
				answers.add(i, got)
				return err
			})
		},
		Check: func(context.Context) error {
			return answers.check(func(i int, got []byte) error {
				return same(places[i].key, got, []byte("value-"+places[i].key[len("key-"):]))
			})
		},
	}, nil
}

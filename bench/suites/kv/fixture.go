package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// The sizes of the data.
const (
	allTables   = 100 // tables that are seeded for list, page and get/spread
	quickTables = 10
	tableKeys   = 1000
	pageKeys    = 100
	manyKeys    = 100
	largeBytes  = 1 << 20
	largeRound  = 32 // large operations of one round
	chunk       = 1000
	mostChecked = 256    // answers of a round that are looked at
	mostCounted = 10_000 // keys of a table that are counted to the last
)

// first is the key that makes the table of a round exist before the clock runs.
const first = "first"

// fixture is a store with what a case does to it.
type fixture struct {
	store  Store
	tables int  // seeded tables
	scale  bool // everything is counted, however much it is
	round  int
	table  string // of the round
	end    []func() error
}

func (b *fixture) close() error {
	var err error
	for _, end := range slices.Backward(b.end) {
		err = errors.Join(err, end())
	}
	return errors.Join(err, b.store.Close())
}

// newTable gives the round a new table, and then drops that of the round before: a
// store that loses its last table and gets a new one at once is another case. (A NATS
// server removes the directory of an account with its last stream, in the background,
// and the next stream now and then finds it gone.)
func (b *fixture) newTable(ctx context.Context) error {
	before := b.table
	b.round++
	b.table = "round-" + strconv.Itoa(b.round)
	if err := b.store.Set(ctx, b.table, first, []byte("value")); err != nil {
		return fmt.Errorf("the first write to table %s: %w", b.table, err)
	}
	if before == "" {
		return nil
	}
	if err := b.store.Drop(ctx, before); err != nil {
		return fmt.Errorf("drop table %s: %w", before, err)
	}
	return nil
}

// pairs returns n pairs: key-0 with value-0 and so on. The round is part of the
// values if it is above 0, so that the values of one round are no other's.
func pairs(n, round int) []Pair {
	all := make([]Pair, n)
	for i := range all {
		all[i] = Pair{Key: "key-" + strconv.Itoa(i), Value: value(i, round)}
	}
	return all
}

func value(i, round int) []byte {
	v := strconv.AppendInt([]byte("value-"), int64(i), 10)
	if round > 0 {
		v = strconv.AppendInt(append(v, '-'), int64(round), 10)
	}
	return v
}

// fill writes all pairs, in chunks.
func (b *fixture) fill(ctx context.Context, table string, all []Pair) error {
	for part := range slices.Chunk(all, chunk) {
		if err := b.store.SetMany(ctx, table, part); err != nil {
			return fmt.Errorf("fill table %s: %w", table, err)
		}
	}
	return nil
}

// holds checks that table has the pairs, and nothing else but extra keys.
func (b *fixture) holds(ctx context.Context, table string, want []Pair, extra int) error {
	for _, i := range suite.Sample(len(want), mostChecked) {
		got, err := b.store.Get(ctx, table, want[i].Key)
		if err != nil {
			return fmt.Errorf("read back key %s of table %s: %w", want[i].Key, table, err)
		}
		if err := same(want[i].Key, got, want[i].Value); err != nil {
			return err
		}
	}
	return b.counts(ctx, table, len(want)+extra)
}

// counts checks how many keys table has, unless they are too many to list.
func (b *fixture) counts(ctx context.Context, table string, want int) error {
	if want > mostCounted && !b.scale {
		return nil
	}
	keys, err := b.store.Keys(ctx, table)
	if err != nil {
		return fmt.Errorf("count the keys of table %s: %w", table, err)
	}
	if len(keys) != want {
		return fmt.Errorf("table %s has %d keys, want %d", table, len(keys), want)
	}
	return nil
}

// same returns an error unless got is what key must hold.
func same(key string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	return fmt.Errorf("key %s is %.40q (%d bytes), want %.40q (%d bytes)", key, got, len(got), want, len(want))
}

// gone checks that key has no value.
func (b *fixture) gone(ctx context.Context, table, key string) error {
	got, err := b.store.Get(ctx, table, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read deleted key %s of table %s: %w", key, table, err)
	}
	return fmt.Errorf("key %s of table %s was deleted and is %.40q", key, table, got)
}

// kept holds some of the answers of a round: one in every step, from an offset
// that nobody can foresee, and so that they are not more than planned.
type kept[T any] struct {
	step, next int
	at         []int
	answers    []T
}

// plan forgets everything and makes room for most answers of n.
func (k *kept[T]) plan(n, most int) {
	k.step = n/most + 1
	k.next = rand.IntN(min(k.step, max(n, 1)))
	k.at = slices.Grow(k.at[:0], most)
	clear(k.answers)
	k.answers = slices.Grow(k.answers[:0], most)
}

// add keeps the answer of the i-th operation, if it is its turn. Calls come in the
// order of i.
func (k *kept[T]) add(i int, answer T) {
	if i == k.next {
		k.next += k.step
		k.at = append(k.at, i)
		k.answers = append(k.answers, answer)
	}
}

// check calls judge for each kept answer.
func (k *kept[T]) check(judge func(i int, answer T) error) error {
	if len(k.at) == 0 {
		return errors.New("the round kept no answer: it was not run")
	}
	for j, i := range k.at {
		if err := judge(i, k.answers[j]); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return nil
}

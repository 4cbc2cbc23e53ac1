package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem/bench/suite"
)

func tableEntries(f Factory) []suite.Entry {
	return []suite.Entry{
		tableEntry(f, "storage/table-put", "put a value of about 9 bytes under one of ten thousand keys", 0, (*rows).put),
		tableEntry(f, "storage/table-get", "get one of ten thousand values (of a thousand in a quick run)", tableKeys, (*rows).get),
		tableEntry(f, "storage/table-scan", "scan a thousand keys", scanKeys, (*rows).scan),
	}
}

func tableEntry(f Factory, name, about string, filled int, op func(*rows, context.Context, int) error) suite.Entry {
	e := suite.Entry{
		Case: name, About: about, Op: "key",
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			t, err := f.Table(ctx, env, env.Dir)
			if err != nil {
				return nil, err
			}
			r := newRows(t, tableKeys)
			if filled > 0 {
				r = newRows(t, fewer(env, filled))
			}
			for i := range fewer(env, filled) {
				if err := r.put(ctx, i); err != nil {
					return nil, errors.Join(err, t.Close())
				}
			}
			return &suite.Round{
				Prepare: func(context.Context, int) error { r.round++; return nil },
				Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
					return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error { return op(r, ctx, i) })
				},
				Check: r.check, Close: t.Close,
			}, nil
		},
	}
	if filled == scanKeys {
		e.Items = scanKeys
	}
	return e
}

// rows are a table and what should be in it. The keys are "key0", "key1" and so on.
type rows struct {
	table  Table
	round  int
	keys   [][]byte
	values [][]byte // what was put last; nil if nothing was
	order  []int    // of those put, by key; for scans
	digits [4]byte  // of the round, at the end of a value
}

func newRows(t Table, n int) *rows {
	r := &rows{table: t, keys: make([][]byte, n), values: make([][]byte, n)}
	for i := range r.keys {
		r.keys[i] = fmt.Appendf(nil, "key%d", i)
	}
	return r
}

// put puts the i-th value. Those of each round and pass differ.
func (r *rows) put(ctx context.Context, i int) error {
	pass, i := i/len(r.keys), i%len(r.keys)
	v := r.values[i]
	if v == nil {
		v = fmt.Appendf(nil, "value%d-0000", i)
		r.values[i] = v
		r.order = nil
	}
	stamp(r.digits[:], int64(r.round+pass))
	copy(v[len(v)-len(r.digits):], r.digits[:])
	return r.table.Put(ctx, r.keys[i], v)
}

func (r *rows) get(ctx context.Context, i int) error {
	i %= len(r.keys)
	v, err := r.table.Get(ctx, r.keys[i])
	if err == nil && !bytes.Equal(v, r.values[i]) {
		err = fmt.Errorf("%s is %q, want %q", r.keys[i], v, r.values[i])
	}
	return err
}

func (r *rows) scan(ctx context.Context, _ int) error {
	n := 0
	err := r.table.Scan(ctx, func(key, value []byte) error {
		if len(value) < len(key) {
			return fmt.Errorf("%s is %q", key, value)
		}
		n++
		return nil
	})
	if err == nil && n != scanKeys {
		err = fmt.Errorf("scanned %d keys, want %d", n, scanKeys)
	}
	return err
}

// check compares every key and value with what was put, by getting and by scanning.
func (r *rows) check(ctx context.Context) error {
	r.sort()
	for _, i := range r.order {
		if err := r.get(ctx, i); err != nil {
			return err
		}
	}
	n := 0
	err := r.table.Scan(ctx, func(key, value []byte) error {
		if n >= len(r.order) {
			return fmt.Errorf("%s is one key too many", key)
		}
		i := r.order[n]
		n++
		if !bytes.Equal(key, r.keys[i]) || !bytes.Equal(value, r.values[i]) {
			return fmt.Errorf("scanned %s = %q, want %s = %q", key, value, r.keys[i], r.values[i])
		}
		return nil
	})
	if err == nil && n != len(r.order) {
		err = fmt.Errorf("scanned %d keys, %d were put", n, len(r.order))
	}
	return err
}

// sort brings those that were put into the order of their keys.
func (r *rows) sort() {
	if r.order != nil {
		return
	}
	r.order = []int{}
	for i, v := range r.values {
		if v != nil {
			r.order = append(r.order, i)
		}
	}
	slices.SortFunc(r.order, func(a, b int) int { return bytes.Compare(r.keys[a], r.keys[b]) })
}

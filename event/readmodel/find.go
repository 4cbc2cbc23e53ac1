package readmodel

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// found is an entry that a query selects.
type found[T any] struct {
	key      string
	revision kv.Revision
	value    T
	order    []value // the fields that it is sorted by
}

// Find returns the entries that q selects, of one moment. Without an index it reads the whole
// table, or as much as it takes to reach the limit if it is in the order of the keys; see
// [Table.Explain]. With OrderBy it holds all entries that are selected in memory.
func (t *Table[T]) Find(ctx context.Context, q *Query) ([]T, error) {
	entries, err := t.find(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(entries))
	for i := range entries {
		out[i] = entries[i].value
	}
	return out, nil
}

// FindOne returns the first entry that q selects, or NotFound.
func (t *Table[T]) FindOne(ctx context.Context, q *Query) (T, error) {
	one := *q
	one.limit = 1
	out, err := t.Find(ctx, &one)
	if err != nil || len(out) == 0 {
		var none T
		if err == nil {
			err = &mainstem.Error{Kind: mainstem.KindNotFound, Op: "find one", Space: t.bucket.Space()}
		}
		return none, err
	}
	return out[0], nil
}

// Count returns how many entries q selects, whatever its order, limit, offset and cursor.
func (t *Table[T]) Count(ctx context.Context, q *Query) (int, error) {
	c, err := compile(t.typ, q)
	if err != nil {
		return 0, err
	}
	n := 0
	err = t.each(ctx, c, "", func(found[T]) bool { n++; return true })
	return n, err
}

// Page is Find that also returns a cursor for [Query.After], "" after the last page. Walking a table
// page by page meets every entry once that is selected, and keeps its place, all the time.
func (t *Table[T]) Page(ctx context.Context, q *Query) (page []T, next string, err error) {
	entries, err := t.find(ctx, q)
	if err != nil {
		return nil, "", err
	}
	for i := range entries {
		page = append(page, entries[i].value)
	}
	if q.limit > 0 && len(entries) == q.limit {
		last := &entries[len(entries)-1]
		next = writeCursor(last.key, last.order)
	}
	return page, next, nil
}

// Explain says how a query is answered, or what is wrong with it.
func (t *Table[T]) Explain(q *Query) (string, error) {
	if err := q.check(); err != nil {
		return "", err
	}
	if _, err := compile(t.typ, q); err != nil {
		return "", err
	}
	how := "reads all entries of table " + t.bucket.Name()
	switch {
	case len(q.orders) > 0:
		how += ", and sorts those that are selected in memory"
	case q.after != "":
		how = "reads the entries of table " + t.bucket.Name() + " from the cursor on"
		fallthrough
	default:
		if q.limit > 0 {
			how += ", until the limit is reached"
		}
	}
	return how + ": the table has no index", nil
}

func (t *Table[T]) find(ctx context.Context, q *Query) ([]found[T], error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	c, err := compile(t.typ, q)
	if err != nil {
		return nil, err
	}
	after, err := readCursor(q.after, len(c.orders))
	if err != nil {
		return nil, err
	}
	begin := ""
	if len(c.orders) == 0 {
		begin = string(after.Key)
	}
	skip := q.offset
	var out []found[T]
	err = t.each(ctx, c, begin, func(e found[T]) bool {
		if len(c.orders) > 0 {
			if q.after == "" || c.compare(after.values(), e.order, string(after.Key), e.key) < 0 {
				out = append(out, e)
			}
			return true
		}
		if skip--; skip < 0 {
			out = append(out, e)
		}
		return q.limit == 0 || len(out) < q.limit
	})
	if err != nil || len(c.orders) == 0 {
		return out, err
	}
	slices.SortFunc(out, func(a, b found[T]) int { return c.compare(a.order, b.order, a.key, b.key) })
	out = out[min(q.offset, len(out)):]
	if q.limit > 0 {
		out = out[:min(q.limit, len(out))]
	}
	return out, nil
}

// each calls do for the entries that c selects, in the order of their keys after begin, until it
// returns false.
func (t *Table[T]) each(ctx context.Context, c *compiled, begin string, do func(found[T]) bool) error {
	for e, err := range t.bucket.List(ctx, &kv.Query{After: begin}) {
		if err != nil {
			return err
		}
		v := deref(reflect.ValueOf(&e.Value))
		if !v.IsValid() || !c.matches(v) {
			continue
		}
		f := found[T]{key: e.Key, revision: e.Revision, value: e.Value}
		for _, o := range c.orders {
			f.order = append(f.order, o.value(v))
		}
		if !do(f) {
			return nil
		}
	}
	return nil
}

// compare orders entries by the fields of the query, then by key.
func (c *compiled) compare(a, b []value, keyA, keyB string) int {
	for i, o := range c.orders {
		order, ok := compare(o.kind, a[i], b[i])
		if !ok { // NaN is before all numbers, as cmp.Compare has it
			order, _ = compare(kindFloat, a[i], b[i])
		}
		if order != 0 {
			if o.descending {
				return -order
			}
			return order
		}
	}
	return strings.Compare(keyA, keyB)
}

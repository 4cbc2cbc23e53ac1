package readmodel

import (
	"context"
	"errors"
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
	order    []value // the fields by which the query orders
}

// Find returns the entries that q selects, in its order, as of one moment (for an index on an
// engine without snapshots, each chunk of a few hundred entries is). It uses an index if one fits
// and is built; see [Options.Indexes]. Otherwise it reads the whole table or, if the result is in
// the order of the keys, from the cursor to the limit. If it has to sort, it holds all selected
// entries in memory. [Table.Explain] returns which of these it does.
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

// Count returns how many entries q selects. It ignores the order, the limit, the offset and the
// cursor.
func (t *Table[T]) Count(ctx context.Context, q *Query) (int, error) {
	c, err := compile(t.typ, q)
	if err != nil {
		return 0, err
	}
	n := 0
	add := func(found[T]) bool { n++; return true }
	if p := t.plan(&Query{groups: q.groups}, &cursor{}); p != nil {
		if err := t.eachOf(ctx, p, c, add); !unusable(err) {
			return n, err
		}
		n = 0
	}
	return n, t.each(ctx, c, "", add)
}

// Page is Find that also returns a cursor for [Query.After]. The cursor is "" if q has no limit or
// if the page has fewer entries than the limit; the page after a full one may be empty. A walk page
// by page yields exactly once every entry that is selected, and does not change its place in the
// order, during the whole walk.
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

// Explain returns how Find executes q: by which index, or by reading the table. Its errors are
// those of Find before it reads. Explain does not read: it may name an index that is not built yet,
// in place of which Find reads the whole table.
func (t *Table[T]) Explain(q *Query) (string, error) {
	c, after, err := t.prepare(q)
	if err != nil {
		return "", err
	}
	if p := t.plan(q, after); p != nil {
		return t.explainPlan(q, c, p), nil
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
	if len(t.indexes) > 0 {
		return how + ": no index fits", nil
	}
	return how + ": the table has no index", nil
}

// explainPlan returns how q is executed by the plan p.
func (t *Table[T]) explainPlan(q *Query, c *compiled, p *plan) string {
	how := p.String() + " of table " + t.bucket.Name()
	switch {
	case !p.ordered && (len(c.orders) > 0 || q.limit > 0):
		return how + ", and sorts those that are selected in memory"
	case p.ordered && q.limit > 0:
		return how + " in order, until the limit is reached"
	}
	return how
}

// prepare checks and compiles q, and decodes its cursor.
func (t *Table[T]) prepare(q *Query) (*compiled, *cursor, error) {
	if err := q.check(); err != nil {
		return nil, nil, err
	}
	c, err := compile(t.typ, q)
	if err != nil {
		return nil, nil, err
	}
	after, err := readCursor(q.after, len(c.orders))
	return c, after, err
}

// find is Find with the keys and revisions of the entries.
func (t *Table[T]) find(ctx context.Context, q *Query) ([]found[T], error) {
	c, after, err := t.prepare(q)
	if err != nil {
		return nil, err
	}
	s := &selection[T]{q: q, c: c, after: after}
	if p := t.plan(q, after); p != nil {
		s.ordered = p.ordered
		err := t.eachOf(ctx, p, c, s.add)
		if err == nil {
			return s.result(), nil
		}
		if !unusable(err) {
			return nil, err
		}
		s = &selection[T]{q: q, c: c, after: after}
	}
	begin := ""
	if s.ordered = len(c.orders) == 0; s.ordered {
		begin = string(after.Key)
	}
	if err := t.each(ctx, c, begin, s.add); err != nil {
		return nil, err
	}
	return s.result(), nil
}

// unusable reports whether err may mean that an index cannot be read: it is not declared, not
// built, or has another definition. The table is then read without it.
func unusable(err error) bool {
	return errors.Is(err, mainstem.ErrUnavailable) || errors.Is(err, mainstem.ErrNotFound)
}

// selection collects the entries of a query. If they arrive in the order of the query, it ends the
// read as soon as there are enough; else it collects all, and result sorts them.
type selection[T any] struct {
	q       *Query
	c       *compiled
	after   *cursor
	ordered bool       // entries arrive in the order of the query; equal ones arrive in any order
	out     []found[T] // the entries after the cursor so far
	run     int        // index in out of the first entry of the last run; see add
}

// add adds an entry, and reports whether more are needed.
//
// Entries that are equal in the order of the query form a run, and result sorts each run by key. So
// in an ordered read, the read may end only between two runs: when the next run begins beyond the
// limit. Without OrderBy each entry is a run of its own.
func (s *selection[T]) add(e found[T]) bool {
	if s.q.after != "" && s.c.compare(s.after.values(), e.order, string(s.after.Key), e.key) >= 0 {
		return true
	}
	if s.ordered && s.q.limit > 0 {
		if n := len(s.out); n > 0 && (len(s.c.orders) == 0 || s.c.compare(s.out[n-1].order, e.order, "", "") != 0) {
			s.run = n
		}
		if s.enough(s.run) {
			return false
		}
	}
	s.out = append(s.out, e)
	return !(s.ordered && len(s.c.orders) == 0 && s.enough(len(s.out)))
}

// enough reports whether n entries reach the limit beyond the offset. The sum of both may overflow.
func (s *selection[T]) enough(n int) bool { return s.q.limit > 0 && n-s.q.offset >= s.q.limit }

// result returns the entries of the query: sorted, and without those outside of offset and limit.
func (s *selection[T]) result() []found[T] {
	slices.SortFunc(s.out, func(a, b found[T]) int { return s.c.compare(a.order, b.order, a.key, b.key) })
	out := s.out[min(s.q.offset, len(s.out)):]
	if s.q.limit > 0 {
		out = out[:min(s.q.limit, len(out))]
	}
	return out
}

// eachOf calls do for the entries in the ranges of a plan that c selects, until do returns false.
func (t *Table[T]) eachOf(ctx context.Context, p *plan, c *compiled, do func(found[T]) bool) error {
	for e, err := range t.indexed.By(p.index.name).ListAll(ctx, p.ranges...) {
		if err != nil {
			return err
		}
		if f, ok := selects(c, &e); ok && !do(f) {
			return nil
		}
	}
	return nil
}

// each calls do for the entries that c selects, in the order of their keys after begin, until do
// returns false.
func (t *Table[T]) each(ctx context.Context, c *compiled, begin string, do func(found[T]) bool) error {
	for e, err := range t.bucket.List(ctx, &kv.Query{After: begin}) {
		if err != nil {
			return err
		}
		if f, ok := selects(c, &e); ok && !do(f) {
			return nil
		}
	}
	return nil
}

// selects returns e as a found, and whether c selects it.
func selects[T any](c *compiled, e *kv.Entry[T]) (f found[T], ok bool) {
	v := deref(reflect.ValueOf(&e.Value))
	if !v.IsValid() || !c.matches(v) {
		return f, false
	}
	f = found[T]{key: e.Key, revision: e.Revision, value: e.Value}
	for _, o := range c.orders {
		f.order = append(f.order, o.value(v))
	}
	return f, true
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

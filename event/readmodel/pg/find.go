package readmodelpg

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

// collect runs a statement, and returns the entries that it selects.
func (t *Table[T]) collect(ctx context.Context, b *builder) ([]row[T], error) {
	rows, err := t.on.Query(ctx, b.String(), b.args...)
	if err != nil {
		return nil, explain(ctx, t.name, false, err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (row[T], error) { return scan[T](t.l, r) })
	return out, explain(ctx, t.name, false, err)
}

// find returns the entries that q selects, in its order.
func (t *Table[T]) find(ctx context.Context, q *readmodel.Query) ([]row[T], *question, error) {
	b := &builder{}
	a, err := t.ask(q, b)
	if err != nil {
		return nil, nil, err
	}
	rows, err := t.collect(ctx, b)
	return rows, a, err
}

// ask adds to b the statement for q.
func (t *Table[T]) ask(q *readmodel.Query, b *builder) (*question, error) {
	b.add("SELECT ", t.sql.list, " FROM ", t.sql.table, " t")
	a, err := newQuestion(t.l, q, b)
	if err != nil {
		return nil, err
	}
	return a, a.page()
}

// Find returns the entries that q selects, in its order, as of one moment.
func (t *Table[T]) Find(ctx context.Context, q *readmodel.Query) ([]T, error) {
	rows, _, err := t.find(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(rows))
	for i := range rows {
		out[i] = rows[i].value
	}
	return out, nil
}

// FindOne returns the first entry that q selects, or NotFound.
func (t *Table[T]) FindOne(ctx context.Context, q *readmodel.Query) (T, error) {
	one := *q
	rows, _, err := t.find(ctx, one.Limit(1))
	if err == nil && len(rows) == 0 {
		err = mainstem.Errorf(mainstem.KindNotFound, "find one", "table %s", t.name)
	}
	if err != nil {
		var none T
		return none, err
	}
	return rows[0].value, nil
}

// Count returns how many entries q selects. It ignores the order, the limit, the offset and the
// cursor.
func (t *Table[T]) Count(ctx context.Context, q *readmodel.Query) (n int, err error) {
	b := &builder{}
	b.add("SELECT count(*) FROM ", t.sql.table)
	a, err := newQuestion(t.l, q, b)
	if err != nil {
		return 0, err
	}
	a.selection()
	err = t.on.QueryRow(ctx, b.String(), b.args...).Scan(&n)
	return n, explain(ctx, t.name, false, err)
}

// Page is Find that also returns a cursor for [readmodel.Query.After]. The cursor is "" if q has no
// limit or if the page has fewer entries than the limit; the page after a full one may be empty. A
// walk page by page yields exactly once every entry that is selected, and does not change its place
// in the order, during the whole walk.
func (t *Table[T]) Page(ctx context.Context, q *readmodel.Query) (page []T, next string, err error) {
	rows, a, err := t.find(ctx, q)
	if err != nil {
		return nil, "", err
	}
	for i := range rows {
		page = append(page, rows[i].value)
	}
	if limit := a.parsed.Limit; limit > 0 && len(rows) == limit {
		last := &rows[len(rows)-1]
		place := readmodel.Place{Key: keyText(t.l.of(last.values, t.l.key))}
		for _, c := range a.orders {
			place.Order = append(place.Order, t.l.of(last.values, c))
		}
		next = place.Cursor()
	}
	return page, next, nil
}

// of returns the value of c among the values of an entry.
func (l *layout) of(values []any, c *column) any {
	for i := range l.columns {
		if l.columns[i] == c {
			return values[i]
		}
	}
	return nil
}

// Explain returns the plan of PostgreSQL for q, as of now: the output of EXPLAIN. Its errors are
// those of Find.
func (t *Table[T]) Explain(ctx context.Context, q *readmodel.Query) (string, error) {
	b := &builder{}
	b.add("EXPLAIN ")
	if _, err := t.ask(q, b); err != nil {
		return "", err
	}
	rows, err := t.on.Query(ctx, b.String(), b.args...)
	if err != nil {
		return "", explain(ctx, t.name, false, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(lines, "\n"), explain(ctx, t.name, false, err)
}

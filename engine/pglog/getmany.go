package pglog

import (
	"bytes"
	"context"
	"iter"

	"github.com/mainstemdev/mainstem"
)

// GetMany implements [mainstem.Reader]: one statement. If the records are more than a page,
// it holds a connection until the loop ends; see [Options.HeldConns].
func (v view) GetMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		if err := mainstem.ValidateKeys(keys); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		if len(keys) == 0 {
			return
		}
		m := many{view: v, keys: keys, page: newPage(space, nil)}
		defer m.page.free()
		if err := m.run(ctx, yield); err != nil {
			yield(mainstem.Record{}, err)
		}
	}
}

// many is one GetMany under way.
type many struct {
	view
	keys  [][]byte // those that are still to be yielded
	page  *page
	exact bool // the page must be; see paged
}

func (m *many) run(ctx context.Context, yield func(mainstem.Record, error) bool) error {
	more, err := m.fetch(ctx)
	if err != nil {
		return err
	}
	if more && !m.frozen {
		h, err := m.l.hold(ctx, "get many")
		if err != nil {
			return err
		}
		defer h.release()
		m.view = h.view() // from the beginning: what was read is of another moment
		if more, err = m.fetch(ctx); err != nil {
			return err
		}
	}
	for m.lend(yield, more) && more {
		if more, err = m.fetch(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lend yields the records of the page, and one of version 0 for each key in between that
// has none; without more to come also for the keys that are left.
func (m *many) lend(yield func(mainstem.Record, error) bool, more bool) bool {
	records := m.page.records
	for len(m.keys) > 0 {
		key := m.keys[0]
		switch {
		case len(records) > 0 && bytes.Equal(records[0].Key, key):
			if !yield(records[0], nil) {
				return false
			}
			records = records[1:]
		case len(records) == 0 && more:
			return true
		case !yield(mainstem.Record{Space: m.page.space, Key: key}, nil):
			return false
		}
		m.keys = m.keys[1:]
	}
	return true
}

// fetch reads a page of the records of the keys, in their order, and reports whether it
// may not be the last.
func (m *many) fetch(ctx context.Context) (more bool, err error) {
	limit, exact := m.l.pace.rows(m.page.space, len(m.keys), m.exact || m.on.exact())
	text, args := m.statement(limit, exact)
	err = m.on.query(ctx, "get many", m.page.fill(exact), text, args...)
	if err == errOverrun {
		m.exact = true
		return m.fetch(ctx)
	}
	if err != nil {
		return false, err
	}
	if !m.page.found {
		return false, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "get many", Space: m.page.space}
	}
	m.l.pace.learn(m.page.space, m.page)
	return m.page.full(limit) && len(m.page.records) < len(m.keys), nil
}

func (m *many) statement(limit int, exact bool) (string, []any) {
	firsts, marks := make([][]byte, len(m.keys)), make([][]byte, len(m.keys))
	for i, key := range m.keys {
		n := split(key)
		firsts[i], marks[i] = n.first, n.mark
	}
	var q selection
	now, rows := "{schema}.tick("+q.arg(m.on.moment())+")", q.arg(limit)
	from := " FROM (SELECT k.id, k.name, k.rest, k.version, w.ord FROM unnest(" + q.arg(firsts) + "::bytea[], " + q.arg(marks) + "::bytea[])" +
		" WITH ORDINALITY AS w (name, mark, ord) JOIN {schema}.key k ON k.space = s.id AND k.name = w.name AND k.mark = w.mark" +
		" WHERE k.position IS NOT NULL AND k.tomb = 0 AND " + alive("k", now) + " ORDER BY w.ord LIMIT " + rows + ") k" +
		" JOIN {schema}.record r ON r.key = k.id AND r.version = k.version"
	text := "SELECT NULL::bigint, p.* FROM {schema}.space s LEFT JOIN LATERAL (" +
		paged(recordColumns+", "+keyColumns, "r.size, k.ord", from, "i.ord", rows, exact) + ") p ON true WHERE s.name = " + q.arg(storable(m.page.space))
	return m.l.dialect.sql(text), q.args
}

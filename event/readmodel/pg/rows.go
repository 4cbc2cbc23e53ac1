package readmodelpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/projection"
)

// rowKey names an entry that the handlers of a commit have touched.
type rowKey struct{ table, key string }

// touched is such an entry.
type touched interface {
	// statements adds what the commit does about the entry.
	statements(c *changes) error
	// blind reports whether the entry was not there when it was read, or was not read: it is alone if its absence is all that matters.
	absence() (blind, alone bool)
}

// entry is one of a table of T.
type entry[T any] struct {
	table   *Table[T]
	id      rowKey
	key     any
	value   T
	live    bool
	changed bool
	read    bool   // as of the version
	version string // xmin of the row; "" if it was not there
}

// changes is the statements of a commit, and what each of them has to do.
type changes struct {
	batch pgx.Batch
	wants []want
}

// want is how many rows a statement changes or selects, unless what was read has changed.
type want struct {
	rows int // -1: any number
	of   rowKey
}

func (c *changes) add(b *builder, err error, rows int, of rowKey) error {
	if err == nil {
		c.batch.Queue(b.String(), b.args...)
		c.wants = append(c.wants, want{rows, of})
	}
	return err
}

// Get returns the entry of a table with a key as of now in tx, or NotFound. The commit of tx depends on it: if somebody
// else has changed it meanwhile, the events are handled again. The projection has the table's database as its target.
func Get[T any](ctx context.Context, tx *projection.Tx, t *Table[T], key string) (T, error) {
	var none T
	e, err := entryOf(tx, t, key)
	if err != nil {
		return none, err
	}
	if !e.read && !e.changed {
		if err := e.load(ctx); err != nil {
			return none, err
		}
	}
	if !e.live {
		return none, t.keyError(mainstem.KindNotFound, "get", key)
	}
	return e.value, nil
}

// Put adds an entry to a table as part of tx, or replaces the one with its key. An entry that cannot be stored fails the commit.
func Put[T any](tx *projection.Tx, t *Table[T], v T) {
	_, key, err := t.values(v)
	if err != nil {
		tx.Batch().Fail(err)
		return
	}
	if e, err := entryOf(tx, t, key); err != nil {
		tx.Batch().Fail(err)
	} else {
		e.value, e.live, e.changed = v, true, true
	}
}

// Delete removes the entry of a table with a key as part of tx. One that is not there is no error.
func Delete[T any](tx *projection.Tx, t *Table[T], key string) {
	e, err := entryOf(tx, t, key)
	if err != nil {
		tx.Batch().Fail(err)
		return
	}
	var none T
	e.value, e.live, e.changed = none, false, true
}

// Modify replaces the entry of a table with a key, as part of tx, by what change returns for it; for the zero T and false if there
// is none.
func Modify[T any](ctx context.Context, tx *projection.Tx, t *Table[T], key string, change func(old T, found bool) (T, error)) error {
	old, err := Get(ctx, tx, t, key)
	found := err == nil
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return err
	}
	v, err := change(old, found)
	if err != nil {
		return err
	}
	if got := t.Key(v); got != key {
		return mainstem.Refusef(mainstem.KindInvalid, op, "table %s: the entry %.60q was given the key %.60q", t.name, key, got)
	}
	Put(tx, t, v)
	return nil
}

// entryOf returns the entry with a key in the transaction of tx.
func entryOf[T any](tx *projection.Tx, t *Table[T], key string) (*entry[T], error) {
	x, ok := tx.Transaction().(*transaction)
	if !ok || x.out.db.pool != t.db.pool {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "table %s: its database is not the target of the projection; see Projection.WithTarget", t.name)
	}
	k, err := t.l.keyValue(key)
	if err != nil {
		return nil, err
	}
	id := rowKey{t.sql.table, keyText(k)}
	if there, ok := x.rows[id]; ok {
		e, ok := there.(*entry[T])
		if !ok {
			return nil, mainstem.Refusef(mainstem.KindInvalid, op, "table %s is written as one of %T and of another type in one commit", t.name, *new(T))
		}
		return e, nil
	}
	e := &entry[T]{table: t, id: id, key: k}
	x.rows[id] = e
	return e, nil
}

// load reads the entry. After an error it counts as not read.
func (e *entry[T]) load(ctx context.Context) error {
	t := e.table
	b := t.sql.byKey(t.l, "SELECT xmin::text, "+t.sql.list, e.key)
	var version string
	r, err := scan[T](t.l, t.db.pool.QueryRow(ctx, b.String(), b.args...), &version)
	switch {
	case err == nil:
		e.value, e.live, e.version = r.value, true, version
	case !errors.Is(err, pgx.ErrNoRows):
		return explain(ctx, t.name, false, err)
	}
	e.read = true
	return nil
}

func (e *entry[T]) absence() (blind, alone bool) {
	return e.version == "", e.version == "" && e.read && !e.live
}

// statements implements touched. A row that has another xmin was changed by somebody else.
func (e *entry[T]) statements(c *changes) error {
	t, l := e.table, e.table.l
	var values []any
	if e.changed && e.live {
		var err error
		if values, _, err = t.values(e.value); err != nil {
			return err
		}
	}
	var b *builder
	var err error
	rows := 1
	switch {
	case e.version != "" && e.changed && e.live:
		b, err = t.sql.replace(l, values)
	case e.version != "" && e.changed:
		b = t.sql.byKey(l, "DELETE", e.key)
	case e.version != "":
		b = t.sql.byKey(l, "SELECT", e.key)
	case e.read && e.changed && e.live:
		b, err = t.sql.insert(l, values, " ON CONFLICT ("+quote(l.key.name)+") DO NOTHING")
	case e.read:
		b, rows = t.sql.byKey(l, "SELECT", e.key), 0
	case e.live:
		b, err = t.sql.insert(l, values, t.sql.onConflict(l))
	default:
		b, rows = t.sql.byKey(l, "DELETE", e.key), -1
	}
	if err != nil {
		return err
	}
	if e.version != "" {
		b.add(" AND xmin::text = ", b.arg(e.version, "text"))
		if !e.changed {
			b.add(" FOR SHARE")
		}
	}
	return c.add(b, nil, rows, e.id)
}

// locks adds the locks that keep what was not there away until the end of the commit: one for each table, shared by all that
// may add to it, and exclusive where something depends on an absence alone.
func locks(c *changes, rows map[rowKey]touched) {
	exclusive := make(map[string]bool)
	var tables []string
	for id, r := range rows {
		blind, alone := r.absence()
		if _, there := exclusive[id.table]; blind && !there {
			tables = append(tables, id.table)
			exclusive[id.table] = false
		}
		if alone {
			exclusive[id.table] = true
		}
	}
	slices.Sort(tables)
	for _, t := range tables {
		b := &builder{}
		b.add("SELECT pg_advisory_xact_lock", map[bool]string{false: "_shared"}[exclusive[t]], "(", b.arg(int64(lockRows), "integer"), ", ", b.arg(int64(lockOf(t)), "integer"), ")")
		_ = c.add(b, nil, -1, rowKey{table: t})
	}
}

// lockRows is the class of those locks.
const lockRows = lockTables + 1

// changesOf returns the statements for all entries, in an order that is the same for all commits, so that none waits for
// another that waits for it.
func changesOf(rows map[rowKey]touched) (*changes, error) {
	c := &changes{}
	locks(c, rows)
	ids := make([]rowKey, 0, len(rows))
	for id := range rows {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b rowKey) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.key, b.key))
	})
	for _, id := range ids {
		if err := rows[id].statements(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// run executes the statements in tx; a Conflict if one of them finds another state than was read.
func (c *changes) run(ctx context.Context, tx pgx.Tx) (err error) {
	if c.batch.Len() == 0 {
		return nil
	}
	results := tx.SendBatch(ctx, &c.batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	for _, w := range c.wants {
		tag, err := results.Exec()
		if err != nil {
			return fmt.Errorf("%s, key %.60q: %w", w.of.table, w.of.key, err)
		}
		if w.rows >= 0 && int(tag.RowsAffected()) != w.rows {
			return &ConflictError{fmt.Sprintf("key %.60q of %s has changed since it was read", w.of.key, w.of.table)}
		}
	}
	return nil
}

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

// Reads and writes of the handlers of a projection. During one commit, each entry that a handler
// touches is kept in memory (entry), so a handler sees its own writes. A read goes to the database
// at once, outside of the transaction, and notes the version of the row, which is its xmin. The
// commit then executes one statement for each entry, and each must affect the given number of rows:
//
//	read      in the commit  statement                                rows
//	present   written        UPDATE ... AND xmin = version            1
//	present   deleted        DELETE ... AND xmin = version            1
//	present   -              SELECT ... AND xmin = version FOR SHARE  1
//	absent    written        INSERT ... ON CONFLICT DO NOTHING        1
//	absent    - or deleted   SELECT                                   0
//	not read  written        INSERT ... ON CONFLICT DO UPDATE         1
//	not read  deleted        DELETE                                   any
//
// Another number of rows means that the entry has changed since it was read: the commit fails with
// a [*ConflictError], and the events are handled again.
//
// A row that is absent cannot be locked. So before these statements, a commit takes one advisory
// lock for each table: shared if it may insert rows, exclusive if it depends on the absence of a
// row that it does not insert. Only commits of projections take these locks. A row that a program
// inserts by itself after the check, and before the commit, counts as inserted after the commit.
//
// Locks and statements are ordered by table and key in all commits, so that two commits do not
// deadlock on them. A table with a unique index besides that of its key is an exception. There all
// deletions come first, then the writes in the order of the handlers' last changes: so a unique
// value can move from an entry that is deleted, or was changed before, to another one. A deadlock
// is a conflict.

// rowKey identifies an entry that handlers have touched in one commit. table is quoted.
type rowKey struct{ table, key string }

// touched is an entry of a table of any type.
type touched interface {
	// statements adds to c the statement for the entry.
	statements(c *changes) error
	// order is the place of its statement among those of the table, before the key.
	order() int
	// absence reports which lock the entry needs. blind: the row was absent when it was read, or
	// was not read. alone: it was absent, and the commit does not insert it.
	absence() (blind, alone bool)
}

// entry is an entry of a table of T in one commit.
type entry[T any] struct {
	in      *transaction
	table   *Table[T]
	id      rowKey
	key     any // as a value of the key column
	value   T
	live    bool   // the entry exists, with value, as of the handlers so far
	changed int    // the number of the last write or deletion by a handler; 0: none
	read    bool   // it was read from the database
	version string // xmin of the row that was read; "" if it was absent or not read
}

// changes are the statements of a commit. Invariant: batch and wants have the same length.
type changes struct {
	batch pgx.Batch
	wants []want
}

// want is the number of rows that a statement must affect.
type want struct {
	rows int // -1: any
	of   rowKey
}

// add adds a statement, unless err is not nil.
func (c *changes) add(b *builder, err error, rows int, of rowKey) error {
	if err == nil {
		c.batch.Queue(b.String(), b.args...)
		c.wants = append(c.wants, want{rows, of})
	}
	return err
}

// Get returns the entry with a key as of now in tx, or NotFound. The commit of tx depends on the
// result: if another commit changes the entry before it, the events are handled again. The database
// of the table must be the target of the projection (see [projection.Projection.WithTarget]); else
// the error is Invalid.
func Get[T any](ctx context.Context, tx *projection.Tx, t *Table[T], key string) (T, error) {
	var none T
	e, err := entryOf(tx, t, key)
	if err != nil {
		return none, err
	}
	if !e.read && e.changed == 0 {
		if err := e.load(ctx); err != nil {
			return none, err
		}
	}
	if !e.live {
		return none, t.keyError(mainstem.KindNotFound, "get", key)
	}
	return e.value, nil
}

// Put adds an entry to a table as part of tx, or replaces the entry with its key. If the entry
// cannot be stored, or the table is not in the target of the projection, the commit fails.
func Put[T any](tx *projection.Tx, t *Table[T], v T) {
	_, key, err := t.values(v)
	if err != nil {
		tx.Batch().Fail(err)
		return
	}
	if e, err := entryOf(tx, t, key); err != nil {
		tx.Batch().Fail(err)
	} else {
		e.set(v, true)
	}
}

// Delete removes the entry with a key as part of tx. It is no error if there is none. If the table
// is not in the target of the projection, the commit fails.
func Delete[T any](tx *projection.Tx, t *Table[T], key string) {
	e, err := entryOf(tx, t, key)
	if err != nil {
		tx.Batch().Fail(err)
		return
	}
	var none T
	e.set(none, false)
}

// set changes the entry as of the handlers so far.
func (e *entry[T]) set(v T, live bool) {
	e.in.changes++
	e.value, e.live, e.changed = v, live, e.in.changes
}

// Modify reads the entry with a key and replaces it, as part of tx, by the result of change. If
// there is none, change is called with the zero T and false. An error of change is returned, and
// nothing is written. The result must have the same key.
func Modify[T any](ctx context.Context, tx *projection.Tx, t *Table[T], key string, change func(old T, found bool) (T, error)) error {
	e, err := entryOf(tx, t, key)
	if err != nil {
		return err
	}
	old, err := Get(ctx, tx, t, key)
	found := err == nil
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return err
	}
	v, err := change(old, found)
	if err != nil {
		return err
	}
	if got := t.Key(v); got != e.id.key { // key may have another form, such as a UUID in upper case
		return mainstem.Refusef(mainstem.KindInvalid, op, "table %s: the entry %.60q was given the key %.60q", t.name, key, got)
	}
	Put(tx, t, v)
	return nil
}

// entryOf returns the entry with a key in the commit of tx. It does not read it.
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
	e := &entry[T]{in: x, table: t, id: id, key: k}
	x.rows[id] = e
	return e, nil
}

// load reads the entry. After an error it is still not read.
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

// absence implements touched.
func (e *entry[T]) absence() (blind, alone bool) {
	return e.version == "", e.version == "" && e.read && !e.live
}

// order implements touched.
func (e *entry[T]) order() int {
	if e.table.unique && e.live {
		return e.changed
	}
	return 0
}

// statements implements touched; see the table above.
func (e *entry[T]) statements(c *changes) error {
	t, l, changed := e.table, e.table.l, e.changed > 0
	var values []any
	if changed && e.live {
		var err error
		if values, _, err = t.values(e.value); err != nil {
			return err
		}
	}
	var b *builder
	var err error
	rows := 1
	switch {
	case e.version != "" && changed && e.live:
		b, err = t.sql.replace(l, values)
	case e.version != "" && changed:
		b = t.sql.byKey(l, "DELETE", e.key)
	case e.version != "":
		b = t.sql.byKey(l, "SELECT", e.key)
	case e.read && changed && e.live:
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
		if !changed {
			b.add(" FOR SHARE")
		}
	}
	return c.add(b, nil, rows, e.id)
}

// locks adds the advisory locks for the tables of rows, ordered by table.
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

// lockRows is the first number of these locks; the second one is that of the table.
const lockRows = lockTables + 1

// changesOf returns the locks and the statements for all entries, in the order described above.
func changesOf(rows map[rowKey]touched) (*changes, error) {
	c := &changes{}
	locks(c, rows)
	ids := make([]rowKey, 0, len(rows))
	for id := range rows {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b rowKey) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(rows[a].order(), rows[b].order()), cmp.Compare(a.key, b.key))
	})
	for _, id := range ids {
		if err := rows[id].statements(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// run executes the statements in tx. If one affects a wrong number of rows, it returns a
// [*ConflictError].
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

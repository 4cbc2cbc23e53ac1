package readmodelpg

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

// Table is a read model in a table of a [DB]: entries of type T, a struct or a pointer to one. It
// may be used by many goroutines; the result of [Table.In] only as its transaction may.
type Table[T any] struct {
	db   *DB
	on   querier // the pool, or the transaction of In
	name string  // schema.table
	l    *layout
	sql  statements
	// unique: another index than that of the key can refuse an entry.
	unique bool
}

// Open returns the table "schema.table", or "table" in the schema of db. It makes the table, or
// adds the columns and indexes that it lacks, in one transaction; see [Options.MustExist]. The tags
// of T define the columns; see the package comment and docs/event-sourcing.md. If T is wrong, or an
// existing column or index differs, the error is Invalid, and nothing is changed.
func Open[T any](ctx context.Context, db *DB, name string) (*Table[T], error) {
	if db == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "table %.80q: the database is nil", name)
	}
	schema, table, err := db.split(name)
	if err != nil {
		return nil, err
	}
	l, err := newLayout(reflect.TypeFor[T](), table)
	if err != nil {
		return nil, err
	}
	m := &migration{db: db, l: l, schema: schema, table: table}
	if err := m.run(ctx); err != nil {
		return nil, explain(ctx, m.name(), true, err)
	}
	return &Table[T]{db: db, on: db.pool, name: m.name(), l: l, sql: newStatements(l, quote(schema, table)), unique: m.unique}, nil
}

// Name returns "schema.table".
func (t *Table[T]) Name() string { return t.name }

// In returns the table within a transaction of the program's own. Its writes take effect when tx is
// committed, with everything else in tx, and its reads see the earlier writes of tx. As usual in
// PostgreSQL, an error of the server aborts tx; use a savepoint (tx.Begin) to continue after one.
func (t *Table[T]) In(tx pgx.Tx) *Table[T] {
	in := *t
	in.on = tx
	return &in
}

// Key returns the key of an entry: the text of the field with the tag pk.
func (t *Table[T]) Key(v T) string {
	r := reflect.ValueOf(v)
	for r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return ""
		}
		r = r.Elem()
	}
	field := r.FieldByIndex(t.l.key.field.Index)
	x, err := t.l.key.encode(field)
	if err != nil {
		return fmt.Sprint(field.Interface()) // no valid key: writes of the entry are refused
	}
	return keyText(x)
}

// values returns the values of an entry, one for each column, and its key.
func (t *Table[T]) values(v T) (values []any, key string, err error) {
	if values, err = t.l.encode(v); err != nil {
		return nil, "", err
	}
	for i, c := range t.l.columns {
		if c.key {
			key = keyText(values[i])
		}
	}
	_, err = t.l.keyValue(key)
	return values, key, err
}

// write executes a statement, and returns the number of entries that it changed. It returns err if
// that is not nil.
func (t *Table[T]) write(ctx context.Context, b *builder, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	tag, err := t.on.Exec(ctx, b.String(), b.args...)
	return int(tag.RowsAffected()), explain(ctx, t.name, true, err)
}

// Insert adds an entry. If there is one with its key, or with its values in a unique index, the
// error is of kind Exists.
func (t *Table[T]) Insert(ctx context.Context, v T) error {
	values, key, err := t.values(v)
	if err != nil {
		return err
	}
	b, err := t.sql.insert(t.l, values, " ON CONFLICT ("+quote(t.l.key.name)+") DO NOTHING")
	n, err := t.write(ctx, b, err)
	if err == nil && n == 0 {
		return t.keyError(mainstem.KindExists, "insert", key)
	}
	return err
}

// keyError returns an error about the entry with a key.
func (t *Table[T]) keyError(k mainstem.Kind, does, key string) error {
	e := mainstem.Refusef(k, does, "table %s", t.name)
	e.Key = []byte(key)
	return e
}

// Update replaces the entry with the key of v. If there is none, the error is of kind NotFound; if
// another entry has its values in a unique index, Exists.
func (t *Table[T]) Update(ctx context.Context, v T) error {
	values, key, err := t.values(v)
	if err != nil {
		return err
	}
	b, err := t.sql.replace(t.l, values)
	n, err := t.write(ctx, b, err)
	if err == nil && n == 0 {
		return t.keyError(mainstem.KindNotFound, "update", key)
	}
	return err
}

// Upsert adds an entry, or replaces the entry with its key. If another entry has its values in a
// unique index, the error is of kind Exists.
func (t *Table[T]) Upsert(ctx context.Context, v T) error {
	values, _, err := t.values(v)
	if err != nil {
		return err
	}
	b, err := t.sql.insert(t.l, values, t.sql.onConflict(t.l))
	_, err = t.write(ctx, b, err)
	return err
}

// Delete removes the entry with a key. It is no error if there is none.
func (t *Table[T]) Delete(ctx context.Context, key string) error {
	k, err := t.l.keyValue(key)
	if err != nil {
		return err
	}
	_, err = t.write(ctx, t.sql.byKey(t.l, "DELETE", k), nil)
	return err
}

// DeleteMany removes the entries that q selects, in one statement, and returns their number.
func (t *Table[T]) DeleteMany(ctx context.Context, q *readmodel.Query) (int, error) {
	b := &builder{}
	key := quote(t.l.key.name)
	// FOR UPDATE waits for other writers of a selected row, and then tests its new version by the
	// conditions again.
	b.add("WITH selected AS MATERIALIZED (SELECT ", key, " FROM ", t.sql.table, " t")
	a, err := newQuestion(t.l, q, b)
	if err == nil {
		err = a.page()
	}
	b.add(" FOR UPDATE) DELETE FROM ", t.sql.table, " t USING selected s WHERE t.", key, " = s.", key)
	return t.write(ctx, b, err)
}

// Clear removes all entries, in one statement.
func (t *Table[T]) Clear(ctx context.Context) error {
	b := &builder{}
	b.add("DELETE FROM ", t.sql.table)
	_, err := t.write(ctx, b, nil)
	return err
}

// Get returns the entry with a key, or NotFound. A key that the key column cannot hold is Invalid,
// here and in all other methods.
func (t *Table[T]) Get(ctx context.Context, key string) (T, error) {
	var none T
	k, err := t.l.keyValue(key)
	if err != nil {
		return none, err
	}
	b := t.sql.byKey(t.l, "SELECT "+t.sql.list, k)
	r, err := scan[T](t.l, t.on.QueryRow(ctx, b.String(), b.args...))
	if errors.Is(err, pgx.ErrNoRows) {
		e := mainstem.Errorf(mainstem.KindNotFound, "get", "table %s", t.name)
		e.Key = []byte(key)
		return none, e
	}
	return r.value, explain(ctx, t.name, false, err)
}

// GetMany returns the entries of keys, in the order of keys, as of one moment. Keys without an
// entry are left out.
func (t *Table[T]) GetMany(ctx context.Context, keys ...string) ([]T, error) {
	found := make(map[string]T)
	var values []any
	for _, key := range keys {
		k, err := t.l.keyValue(key)
		if err != nil {
			return nil, err
		}
		values = append(values, k)
	}
	if len(values) == 0 {
		return nil, nil
	}
	b := &builder{}
	a := &question{l: t.l, b: b}
	b.add("SELECT ", t.sql.list, " FROM ", t.sql.table, " WHERE ", a.equal(t.l.key, values))
	rows, err := t.collect(ctx, b)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		found[t.Key(rows[i].value)] = rows[i].value
	}
	var out []T
	for _, k := range values {
		if v, ok := found[keyText(k)]; ok {
			out = append(out, v)
		}
	}
	return out, nil
}

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

// Table is a read model in a table of a [DB]: entries of type T, a struct or a pointer to one. It is safe for concurrent
// use, but one of [Table.In] is as its transaction is.
type Table[T any] struct {
	db   *DB
	on   querier
	name string // schema.table
	l    *layout
	sql  statements
}

// Open returns the table "schema.table", or "table" in the schema of db. It makes the table, or adds the columns and
// indexes that it lacks, unless [Options.MustExist]; package comment and docs/event-sourcing.md say how tags describe them. A
// column that is there with another type is Invalid, and nothing is changed.
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
	return &Table[T]{db: db, on: db.pool, name: m.name(), l: l, sql: newStatements(l, quote(schema, table))}, nil
}

// Name returns "schema.table".
func (t *Table[T]) Name() string { return t.name }

// In returns the table within a transaction of the program's own: what is written by it is there when tx is
// committed, together with whatever else is done in tx. It sees what was done in tx before. An error of the server
// ends tx, as SQL has it; use a savepoint, tx.Begin, to go on after one.
func (t *Table[T]) In(tx pgx.Tx) *Table[T] {
	in := *t
	in.on = tx
	return &in
}

// Key returns the key of an entry: the text of the field whose tag says pk.
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
		return fmt.Sprint(field.Interface()) // a write of it is refused
	}
	return keyText(x)
}

// values returns the values of an entry, and its key.
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

// write runs a statement, and returns how many entries it changed.
func (t *Table[T]) write(ctx context.Context, b *builder, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	tag, err := t.on.Exec(ctx, b.String(), b.args...)
	return int(tag.RowsAffected()), explain(ctx, t.name, true, err)
}

// Insert adds an entry, or is Exists if there is one with its key, or with its values in a unique index.
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

// keyError is about the entry with a key.
func (t *Table[T]) keyError(k mainstem.Kind, does, key string) error {
	e := mainstem.Refusef(k, does, "table %s", t.name)
	e.Key = []byte(key)
	return e
}

// Update replaces the entry with the key of v, or is NotFound if there is none.
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

// Upsert adds an entry or replaces the one with its key.
func (t *Table[T]) Upsert(ctx context.Context, v T) error {
	values, _, err := t.values(v)
	if err != nil {
		return err
	}
	b, err := t.sql.insert(t.l, values, t.sql.onConflict(t.l))
	_, err = t.write(ctx, b, err)
	return err
}

// Delete removes the entry with a key. One that is not there is no error.
func (t *Table[T]) Delete(ctx context.Context, key string) error {
	k, err := t.l.keyValue(key)
	if err != nil {
		return err
	}
	_, err = t.write(ctx, t.sql.byKey(t.l, "DELETE", k), nil)
	return err
}

// DeleteMany removes the entries that q selects, in one statement, and returns how many it removed.
func (t *Table[T]) DeleteMany(ctx context.Context, q *readmodel.Query) (int, error) {
	b := &builder{}
	key := quote(t.l.key.name)
	// FOR UPDATE selects an entry anew that has changed meanwhile.
	b.add("WITH selected AS MATERIALIZED (SELECT ", key, " FROM ", t.sql.table, " t")
	a, err := newQuestion(t.l, q, b)
	if err == nil {
		err = a.page()
	}
	b.add(" FOR UPDATE) DELETE FROM ", t.sql.table, " t USING selected s WHERE t.", key, " = s.", key)
	return t.write(ctx, b, err)
}

// Clear removes every entry, in one statement.
func (t *Table[T]) Clear(ctx context.Context) error {
	b := &builder{}
	b.add("DELETE FROM ", t.sql.table)
	_, err := t.write(ctx, b, nil)
	return err
}

// Get returns the entry with a key, or NotFound.
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

// GetMany returns the entries with these keys that are there, in the order of the keys, all of one moment.
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

package alert

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// stored is a row as the mirror has it.
type stored struct {
	k       int64
	version mainstem.Version
	values  []Value
}

// get reads a row by its primary key, for the writer.
func (m *mirror) get(ctx context.Context, tab *table, values []Value) (*stored, error) {
	args := m.args[:0]
	for _, k := range tab.keys {
		args = append(args, values[k].Any())
	}
	m.args = args
	var found *stored
	there := false
	// Most rows that are looked for are new. A result with one column costs a fraction
	// of one with all.
	err := m.writer.each(ctx, func([]driver.Value) error { there = true; return nil }, tab.findSQL, args...)
	if err == nil && there {
		err = m.writer.each(ctx, func(row []driver.Value) error {
			found = readStored(tab, row)
			return nil
		}, tab.getSQL, args...)
	}
	if err != nil {
		return nil, broken("reading a row", err)
	}
	return found, nil
}

// readStored reads a row that begins with its number and version.
func readStored(tab *table, row []driver.Value) *stored {
	r := &stored{values: make([]Value, len(tab.Columns))}
	r.k = fromSQL(row[0], osql.Integer64).n
	r.version = mainstem.Version(fromSQL(row[1], osql.Integer64).n)
	for i := range r.values {
		r.values[i] = fromSQL(row[i+2], tab.Columns[i].Type)
	}
	return r
}

// write changes a row of the mirror.
func (m *mirror) write(ctx context.Context, tab *table, from, to *stored) error {
	var err error
	switch {
	case from == nil && to == nil: // made and deleted in one transaction
	case from == nil:
		_, err = m.put(ctx, tab, to.k, to.version, to.values)
	case to == nil:
		err = m.remove(ctx, tab, from.k)
	case from.k != to.k: // deleted and made in one transaction
		if err = m.remove(ctx, tab, from.k); err == nil {
			_, err = m.put(ctx, tab, to.k, to.version, to.values)
		}
	default:
		err = m.update(ctx, tab, from, to)
	}
	return err
}

// put adds a row; k is 0 if SQLite is to number it. It returns its number. Columns
// that hold what they hold by default are left out: most of an alert are.
func (m *mirror) put(ctx context.Context, tab *table, k int64, version mainstem.Version, values []Value) (int64, error) {
	args := append(m.args[:0], nil, int64(version))
	if k != 0 {
		args[0] = k
	}
	var set columnSet
	for i := range values {
		if !values[i].zero() {
			set.add(i)
			args = append(args, values[i].Any())
		}
	}
	m.args = args
	id, err := m.writer.exec(ctx, m.shape(tab, insertShape, set), args...)
	if err != nil {
		return 0, broken("writing a row of "+tab.String(), err)
	}
	return id, nil
}

// update changes the columns of a row that differ: only their indexes are touched.
func (m *mirror) update(ctx context.Context, tab *table, from, to *stored) error {
	var set columnSet
	args := append(m.args[:0], int64(to.version))
	for i := range to.values {
		if to.values[i] != from.values[i] {
			set.add(i)
			args = append(args, to.values[i].Any())
		}
	}
	args = append(args, to.k)
	m.args = args
	if _, err := m.writer.exec(ctx, m.shape(tab, updateShape, set), args...); err != nil {
		return broken("changing a row of "+tab.String(), err)
	}
	return nil
}

func (m *mirror) remove(ctx context.Context, tab *table, k int64) error {
	if _, err := m.writer.exec(ctx, tab.deleteSQL, k); err != nil {
		return broken("deleting a row of "+tab.String(), err)
	}
	return nil
}

// columnSet is columns of a table by their places.
type columnSet [(MaxColumns + 63) / 64]uint64

func (s *columnSet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *columnSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

// shape is a statement that writes some columns of a table.
type shape struct {
	table *table
	verb  shapeVerb
	set   columnSet
}

type shapeVerb uint8

const (
	insertShape shapeVerb = iota
	updateShape
)

// maxShapes bounds the statements that are kept. Senders of alerts give few sets of
// columns; when there are more, all are forgotten.
const maxShapes = 128

// shape returns the statement that writes the row's number and version and the
// columns of set, in their order. The number comes first in an INSERT and last in an
// UPDATE.
func (m *mirror) shape(tab *table, verb shapeVerb, set columnSet) string {
	s := shape{tab, verb, set}
	if sql, ok := m.shapes[s]; ok {
		return sql
	}
	if len(m.shapes) >= maxShapes {
		clear(m.shapes)
	}
	sql := s.sql()
	m.shapes[s] = sql
	return sql
}

func (s *shape) sql() string {
	columns, marks, assign := osql.RowID+", "+osql.Version, "?, ?", osql.Version+" = ?"
	for i := range s.table.Columns {
		if s.set.has(i) {
			name := osql.MirrorColumn(&s.table.Columns[i])
			columns, marks, assign = columns+", "+name, marks+", ?", assign+", "+name+" = ?"
		}
	}
	if s.verb == insertShape {
		return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", s.table.mirror(), columns, marks)
	}
	return fmt.Sprintf("UPDATE %s SET %s WHERE %s = ?", s.table.mirror(), assign, osql.RowID)
}

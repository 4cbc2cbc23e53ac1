package alert

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// tx is one transaction: changes that are committed to the log as one batch, and
// then applied to the mirror. The writer's goroutine uses it.
//
// Usually the changes wait in rows until the batch is committed, so that readers
// need not wait for the log. A direct transaction applies them at once instead, with
// the gate of the mirror shut, so that its statements see what those before did.
type tx struct {
	s      *Server
	ctx    context.Context
	schema *schema // with the changes of the transaction
	direct bool

	ops    []op
	first  map[string]int // from space and key to the first op
	rows   map[string]*pending
	order  []string // the keys of rows, in the order in which they came
	undo   []undone
	inside []func() // what to do with the gate shut, when the batch is committed
	after  []func() // what to do afterwards
	bytes  int
}

// op is one change of a record.
type op struct {
	space string
	key   []byte
	value []byte // nil: deletes
	base  mainstem.Version
	table *table // of a row, else nil
	row   int64  // its number in the mirror
	make  string // a space that is created, or ""
	// settled is told the version that the record got, before anybody sees the change.
	settled func(mainstem.Version)
}

// stored is a row as the mirror has it.
type stored struct {
	k       int64
	version mainstem.Version
	values  []Value
}

// pending is a row that the mirror does not have as it will be.
type pending struct {
	table  *table
	before *stored // in the mirror, or nil
	now    *stored // nil: deleted
}

// undone is what rows had before a change.
type undone struct {
	id  string
	was *pending
}

func (s *Server) newTx() *tx {
	return &tx{s: s, ctx: s.quiet, schema: s.schema.Load(), first: map[string]int{}, rows: map[string]*pending{}}
}

// mark is a place in a transaction to go back to.
type mark struct{ ops, undo, inside, after, bytes int }

func (t *tx) mark() mark {
	return mark{len(t.ops), len(t.undo), len(t.inside), len(t.after), t.bytes}
}

// reset takes back what was done since m. It is not for direct transactions,
// which are taken back as a whole.
func (t *tx) reset(m mark) {
	for i := len(t.ops) - 1; i >= m.ops; i-- {
		if id := opID(t.ops[i].space, t.ops[i].key); t.first[id] == i {
			delete(t.first, id)
		}
	}
	for i := len(t.undo) - 1; i >= m.undo; i-- {
		if u := t.undo[i]; u.was == nil {
			delete(t.rows, u.id)
		} else {
			t.rows[u.id] = u.was
		}
	}
	t.ops, t.undo, t.inside, t.after, t.bytes = t.ops[:m.ops], t.undo[:m.undo], t.inside[:m.inside], t.after[:m.after], m.bytes
}

func opID(space string, key []byte) string { return space + "\x00" + string(key) }

// add adds a change of a record. base is the version that the mirror knows, 0
// for none.
func (t *tx) add(o op) {
	id := opID(o.space, o.key)
	if i, ok := t.first[id]; ok {
		o.base = t.ops[i].base
	} else {
		t.first[id] = len(t.ops)
	}
	t.bytes += len(o.key) + len(o.value)
	t.ops = append(t.ops, o)
}

// batch returns the batch, and which op each of its writes is.
func (t *tx) batch() (*mainstem.Batch, []int) {
	b := mainstem.NewBatch()
	b.Durability = t.s.o.Durability
	last := make(map[string]int, len(t.ops))
	for i := range t.ops {
		last[opID(t.ops[i].space, t.ops[i].key)] = i
	}
	var writes []int
	for i := range t.ops {
		o := &t.ops[i]
		id := opID(o.space, o.key)
		if t.first[id] == i {
			o.demand(b)
		}
		if o.make != "" {
			b.Ensure(o.make, rowPolicy())
		}
		if last[id] != i || o.value == nil && o.base == 0 {
			continue // changed again, or made and deleted, in the same transaction
		}
		o.write(b)
		writes = append(writes, i)
	}
	return b, writes
}

// demand adds the condition that nobody else has written the record.
func (o *op) demand(b *mainstem.Batch) {
	if o.base == 0 {
		b.IfAbsent(o.space, o.key)
	} else {
		b.IfVersion(o.space, o.key, o.base)
	}
}

func (o *op) write(b *mainstem.Batch) {
	if o.value != nil {
		b.Put(o.space, o.key, o.value)
	} else {
		b.Delete(o.space, o.key)
	}
}

// get returns the row of the table with the primary key of values, if there is one.
func (t *tx) get(tab *table, values []Value) (*stored, error) {
	if p, ok := t.rows[opID(tab.space, encodeKey(tab, values))]; ok {
		return p.now, nil
	}
	return t.s.mirror.get(t.ctx, tab, values)
}

// write changes a row: from nil if it is new, to nil if it goes.
func (t *tx) write(tab *table, from, to *stored) error {
	known := to
	if to == nil {
		known = from
	}
	key := encodeKey(tab, known.values)
	if !tab.virtual {
		o := op{space: tab.space, key: key, table: tab, row: known.k}
		if to != nil {
			o.value = encodeRow(nil, tab, to.values)
		}
		if from != nil {
			o.base = from.version
		}
		if err := mainstem.ValidateKey(key); err != nil {
			return err
		}
		t.add(o)
	}
	if t.direct {
		if to != nil {
			to.version = t.guess(tab, key)
		}
		return t.s.mirror.write(t.ctx, tab, from, to)
	}
	id := opID(tab.space, key)
	was := t.rows[id]
	t.undo = append(t.undo, undone{id, was})
	p := &pending{table: tab, before: from, now: to}
	if was != nil {
		p.before = was.before
	} else {
		t.order = append(t.order, id)
	}
	t.rows[id] = p
	return nil
}

// guess returns the version that a record will have, unless the log has given
// versions of its key before.
func (t *tx) guess(tab *table, key []byte) mainstem.Version {
	if tab.virtual {
		return 0
	}
	return t.ops[t.first[opID(tab.space, key)]].base + 1
}

// settle tells the rows the versions of their records.
func (t *tx) settle(r mainstem.Receipt, writes []int) error {
	for n, i := range writes {
		o, v := &t.ops[i], r.Versions[n]
		if o.settled != nil {
			o.settled(v)
		}
		switch {
		case o.table == nil || o.value == nil:
		case !t.direct:
			if p := t.rows[opID(o.space, o.key)]; p != nil && p.now != nil {
				p.now.version = v
			}
		case v != o.base+1:
			sql := fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s = ?", o.table.mirror(), osql.Version, osql.RowID)
			if _, err := t.s.mirror.writer.exec(t.ctx, sql, int64(v), o.row); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply brings the rows that wait into the mirror.
func (t *tx) applyRows() error {
	for _, id := range t.order {
		p := t.rows[id]
		if p == nil {
			continue // taken back
		}
		delete(t.rows, id) // taken back and changed again, it stands in the order twice
		if err := t.s.mirror.write(t.ctx, p.table, p.before, p.now); err != nil {
			return err
		}
	}
	return nil
}

// describe writes a record of the catalog; a nil value deletes it. settled, if it
// is not nil, is told the version that the record got.
func (t *tx) describe(key string, value any, base mainstem.Version, settled func(mainstem.Version)) error {
	o := op{space: CatalogSpace, key: []byte(key), base: base, settled: settled}
	if value != nil {
		p, err := json.Marshal(value)
		if err != nil {
			return broken("describing "+key, err)
		}
		o.value = p
	}
	t.add(o)
	return nil
}

// get reads a row by its primary key, for the writer.
func (m *mirror) get(ctx context.Context, tab *table, values []Value) (*stored, error) {
	args := make([]driver.Value, len(tab.keys))
	for i, k := range tab.keys {
		args[i] = values[k].Any()
	}
	var found *stored
	err := m.writer.each(ctx, func(row []driver.Value) error {
		found = readStored(tab, row)
		return nil
	}, tab.getSQL, args...)
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

// put adds a row; k is 0 if SQLite is to number it. It returns its number.
func (m *mirror) put(ctx context.Context, tab *table, k int64, version mainstem.Version, values []Value) (int64, error) {
	args := make([]driver.Value, 0, len(values)+2)
	if k == 0 {
		args = append(args, nil)
	} else {
		args = append(args, k)
	}
	args = append(args, int64(version))
	for i := range values {
		args = append(args, values[i].Any())
	}
	id, err := m.writer.exec(ctx, tab.insertSQL, args...)
	if err != nil {
		return 0, broken("writing a row of "+tab.String(), err)
	}
	return id, nil
}

// update changes the columns of a row that differ: only their indexes are touched.
func (m *mirror) update(ctx context.Context, tab *table, from, to *stored) error {
	var set []string
	args := make([]driver.Value, 0, 16)
	for i := range to.values {
		if to.values[i] != from.values[i] {
			set = append(set, osql.MirrorColumn(&tab.Columns[i])+" = ?, ")
			args = append(args, to.values[i].Any())
		}
	}
	args = append(args, int64(to.version), to.k)
	sql := fmt.Sprintf("UPDATE %s SET %s%s = ? WHERE %s = ?", tab.mirror(), strings.Join(set, ""), osql.Version, osql.RowID)
	if _, err := m.writer.exec(ctx, sql, args...); err != nil {
		return broken("changing a row of "+tab.String(), err)
	}
	return nil
}

func (m *mirror) remove(ctx context.Context, tab *table, k int64) error {
	if _, err := m.writer.exec(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s = ?", tab.mirror(), osql.RowID), k); err != nil {
		return broken("deleting a row of "+tab.String(), err)
	}
	return nil
}

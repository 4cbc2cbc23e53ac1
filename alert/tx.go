package alert

import (
	"context"
	"encoding/json"
	"fmt"

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
	id    string // see opID
	space string
	key   []byte
	value []byte // nil: deletes
	base  mainstem.Version
	table *table // of a row, else nil
	row   int64  // its number in the mirror
	make  string // a space that is created, or ""
	// confirmed gets the version that the record got, before anybody sees the change.
	confirmed func(mainstem.Version)
}

// pending is a row that the mirror does not have as it will be.
type pending struct {
	table  *table
	before *stored // in the mirror, or nil
	now    *stored // nil: deleted
	row    []byte  // now, as the log has it; nil for a table in memory
}

// undone is what rows had before a change.
type undone struct {
	id  string
	was *pending
}

// newTx returns an empty transaction, in the memory of one that is over.
func (s *Server) newTx() *tx {
	t := s.spare
	s.spare = nil
	if t == nil {
		t = &tx{first: map[string]int{}, rows: map[string]*pending{}}
	}
	t.s, t.ctx, t.schema = s, s.quiet, s.schema.Load()
	return t
}

// maxSpare bounds the changes of a transaction whose memory is kept.
const maxSpare = 1024

// release keeps the memory of a transaction that is over for the next.
func (t *tx) release() {
	if cap(t.ops) > maxSpare || cap(t.order) > maxSpare || cap(t.undo) > maxSpare {
		return
	}
	clear(t.ops)
	clear(t.order)
	clear(t.undo)
	clear(t.inside)
	clear(t.after)
	clear(t.first)
	clear(t.rows)
	*t = tx{s: t.s, ops: t.ops[:0], first: t.first, rows: t.rows, order: t.order[:0], undo: t.undo[:0], inside: t.inside[:0], after: t.after[:0]}
	t.s.spare = t
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
		if id := t.ops[i].id; t.first[id] == i {
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

// rowKey is the key of a row's record, and its ID among all records.
type rowKey struct {
	key []byte
	id  string
}

func keyOf(tab *table, values []Value) rowKey {
	b := make([]byte, 0, len(tab.space)+keyRoom)
	b = append(append(b, tab.space...), 0)
	b = appendKey(b, tab, values)
	return rowKey{b[len(tab.space)+1:], string(b)}
}

// keyRoom is about how long a key is.
const keyRoom = 64

// add adds a change of a record. base is the version that the mirror knows, 0
// for none.
func (t *tx) add(o op) {
	if i, ok := t.first[o.id]; ok {
		o.base = t.ops[i].base
	} else {
		t.first[o.id] = len(t.ops)
	}
	t.bytes += len(o.key) + len(o.value)
	t.ops = append(t.ops, o)
}

// batch returns the batch, and which op each of its writes is.
func (t *tx) batch() (*mainstem.Batch, []int) {
	b := mainstem.NewBatch()
	b.Durability = t.s.o.Durability
	last := t.first
	if len(t.first) < len(t.ops) { // some are changed twice
		last = make(map[string]int, len(t.first))
		for i := range t.ops {
			last[t.ops[i].id] = i
		}
	}
	writes := make([]int, 0, len(t.first))
	for i := range t.ops {
		o := &t.ops[i]
		if t.first[o.id] == i {
			o.addCondition(b)
		}
		if o.make != "" {
			b.Ensure(o.make, rowPolicy())
		}
		if last[o.id] != i || o.value == nil && o.base == 0 {
			continue // changed again, or made and deleted, in the same transaction
		}
		o.write(b)
		writes = append(writes, i)
	}
	return b, writes
}

// addCondition adds the condition that nobody else has written the record.
func (o *op) addCondition(b *mainstem.Batch) {
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

// get returns the row of the table with the primary key of values, if there is
// one. key is that of values.
func (t *tx) get(tab *table, key rowKey, values []Value) (*stored, error) {
	if p, ok := t.rows[key.id]; ok {
		return p.now, nil
	}
	if r := t.s.recent.get(tab, key.id); r != nil {
		return r, nil
	}
	return t.s.mirror.get(t.ctx, tab, values)
}

// write changes a row: from nil if it is new, to nil if it goes.
func (t *tx) write(tab *table, from, to *stored) error {
	known := to
	if to == nil {
		known = from
	}
	return t.writeKey(tab, keyOf(tab, known.values), from, to)
}

// writeKey is write for a row whose key is known.
func (t *tx) writeKey(tab *table, key rowKey, from, to *stored) error {
	var row []byte
	if !tab.virtual {
		if to != nil {
			row = encodeRow(nil, tab, to.values)
		}
		if err := mainstem.ValidateKey(key.key); err != nil {
			return err
		}
		o := op{id: key.id, space: tab.space, key: key.key, value: row, table: tab}
		if from != nil {
			o.base, o.row = from.version, from.k
		}
		if to != nil {
			o.row = to.k
		}
		t.add(o)
	}
	if t.direct {
		if to != nil {
			to.version = t.guess(tab, key.id)
		}
		t.s.recent.drop(key.id)
		return t.s.mirror.write(t.ctx, tab, from, to)
	}
	was := t.rows[key.id]
	t.undo = append(t.undo, undone{key.id, was})
	p := &pending{table: tab, before: from, now: to, row: row}
	if was != nil {
		p.before = was.before
	} else {
		t.order = append(t.order, key.id)
	}
	t.rows[key.id] = p
	return nil
}

// guess returns the version that a record will have, unless the log has given
// versions of its key before.
func (t *tx) guess(tab *table, id string) mainstem.Version {
	if tab.virtual {
		return 0
	}
	return t.ops[t.first[id]].base + 1
}

// confirm gives the rows the versions of their records.
func (t *tx) confirm(r mainstem.Receipt, writes []int) error {
	for n, i := range writes {
		o, v := &t.ops[i], r.Versions[n]
		if o.confirmed != nil {
			o.confirmed(v)
		}
		switch {
		case o.table == nil || o.value == nil:
		case !t.direct:
			if p := t.rows[o.id]; p != nil && p.now != nil {
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
		t.s.recent.set(id, p)
	}
	return nil
}

// describe writes a record of the catalog; a nil value deletes it. confirmed, if it
// is not nil, is told the version that the record got.
func (t *tx) describe(key string, value any, base mainstem.Version, confirmed func(mainstem.Version)) error {
	o := op{id: opID(CatalogSpace, []byte(key)), space: CatalogSpace, key: []byte(key), base: base, confirmed: confirmed}
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

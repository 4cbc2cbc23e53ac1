package alert

import (
	"context"
	"encoding/json"

	"github.com/mainstemdev/mainstem"
)

// tx is one transaction: what statements that share a commit change. Statements compute
// their changes from the mirror and from the changes before them; the log gets them as one
// batch; the mirror gets them when the log has them. The writer's goroutine uses it.
type tx struct {
	s      *Server
	ctx    context.Context
	schema *schema
	// trial: changes are made in the mirror at once, too, in a transaction that is taken back
	// before the commit. So the queries of a trial job see its changes.
	trial bool
	tried bool // there is such a transaction

	ops     []op           // one for each record, in the order in which they came
	at      map[string]int // the changes by their IDs
	undo    []undone
	defines bool     // some changes are of the catalog
	after   []func() // what to do when the mirror shows the changes
	bytes   int
}

// op is what becomes of a record, or of a row that is in memory only.
type op struct {
	id    string // see opID
	space string
	key   []byte
	value []byte           // nil: deleted
	base  mainstem.Version // of the record before the transaction; 0: there was none
	make  string           // a space that is created, or ""
	given bool             // it is in the batch of an InsertTo already

	table  *table  // of a row, else nil
	before *stored // the row in the mirror, or nil
	now    *stored // nil: deleted
}

// undone is a change that another one of the same record has replaced.
type undone struct {
	at  int
	was op
}

// newTx returns an empty transaction, in the memory of one that is over.
func (s *Server) newTx() *tx {
	t := s.spare
	s.spare = nil
	if t == nil {
		t = &tx{at: map[string]int{}}
	}
	t.s, t.ctx, t.schema = s, s.quiet, s.schema.Load()
	return t
}

// maxSpare bounds the changes of a transaction whose memory is kept.
const maxSpare = 1024

// release keeps the memory of a transaction that is over for the next.
func (t *tx) release() {
	if cap(t.ops) > maxSpare || cap(t.undo) > maxSpare {
		return
	}
	clear(t.ops)
	clear(t.undo)
	clear(t.after)
	clear(t.at)
	*t = tx{s: t.s, ops: t.ops[:0], at: t.at, undo: t.undo[:0], after: t.after[:0]}
	t.s.spare = t
}

// mark is a place in a transaction to go back to.
type mark struct {
	ops, undo, after, bytes int
	defines                 bool
}

func (t *tx) mark() mark {
	return mark{len(t.ops), len(t.undo), len(t.after), t.bytes, t.defines}
}

// reset takes back what was done since m.
func (t *tx) reset(m mark) {
	for i := len(t.undo) - 1; i >= m.undo; i-- {
		t.ops[t.undo[i].at] = t.undo[i].was
	}
	for i := m.ops; i < len(t.ops); i++ {
		delete(t.at, t.ops[i].id)
	}
	t.ops, t.undo, t.after, t.bytes, t.defines = t.ops[:m.ops], t.undo[:m.undo], t.after[:m.after], m.bytes, m.defines
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

// add adds a change. base and before are what the mirror has.
func (t *tx) add(o op) {
	t.bytes += len(o.key) + len(o.value)
	i, ok := t.at[o.id]
	if !ok {
		t.at[o.id] = len(t.ops)
		t.ops = append(t.ops, o)
		return
	}
	was := t.ops[i]
	t.undo = append(t.undo, undone{i, was})
	o.base, o.before = was.base, was.before
	t.ops[i] = o
}

// logged reports whether the log keeps the record.
func (o *op) logged() bool { return o.table == nil || !o.table.virtual }

// writes reports whether the batch writes the record: one that was made and deleted in the
// same transaction it does not.
func (o *op) writes() bool { return o.logged() && (o.value != nil || o.base != 0) }

// batch returns the batch, or nil if the log gets nothing.
func (t *tx) batch() *mainstem.Batch {
	var b *mainstem.Batch
	for i := range t.ops {
		o := &t.ops[i]
		if !o.logged() {
			continue
		}
		if b == nil {
			b = mainstem.NewBatch()
			b.Durability = t.s.o.Durability
		}
		o.addCondition(b)
		if o.make != "" {
			b.Ensure(o.make, rowPolicy())
		}
		if o.writes() {
			o.write(b)
		}
	}
	return b
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
	if i, ok := t.at[key.id]; ok {
		return t.ops[i].now, nil
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
	o := op{id: key.id, space: tab.space, key: key.key, table: tab, before: from, now: to}
	if !tab.virtual {
		if to != nil {
			o.value = encodeRow(nil, tab, to.values)
		}
		if err := mainstem.ValidateKey(key.key); err != nil {
			return err
		}
	}
	if from != nil {
		o.base = from.version
	}
	t.add(o)
	if !t.trial {
		return nil
	}
	if !t.tried {
		if err := t.s.mirror.begin(t.ctx, undoable); err != nil {
			return t.s.lost(err)
		}
		t.tried = true
	}
	return t.s.mirror.write(t.ctx, tab, from, to)
}

// describe writes a record of the catalog; a nil value deletes it.
func (t *tx) describe(key string, value any, base mainstem.Version) error {
	o := op{id: opID(CatalogSpace, []byte(key)), space: CatalogSpace, key: []byte(key), base: base}
	if value != nil {
		p, err := json.Marshal(value)
		if err != nil {
			return broken("describing "+key, err)
		}
		o.value = p
	}
	t.add(o)
	t.defines = true
	return nil
}

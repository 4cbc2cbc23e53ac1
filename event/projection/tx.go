package projection

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/kv"
)

// Tx is what one commit of a projection reads and writes. A read sees what was written through the
// same Tx before, and makes the commit depend on the row: if another writer has changed it
// meanwhile, the commit fails and the events are handled again. So no update is lost, neither
// within a commit of many events nor between projections that change the same row. A Tx is valid
// during the call of the handler, and for its goroutine only.
//
// Rows are kept in memory until flush. Each row is read at most once and written at most once,
// whatever number of events of the commit change it. Deletions are written first, then the other
// rows in the order of their last changes: so a value of a unique index can move from a row that is
// deleted, or was changed before, to another row.
type Tx struct {
	batch    *mainstem.Batch
	shared   bool              // the batch had writes before, which reads see too
	rows     []row             // that were read or written, in the order of the first use; after flush in that of the writes
	byKey    map[rowKey]row    // the same rows, if there are more than searched; else nil
	changes  int               // the number of changes of rows so far
	version  int               // of the tables that it writes
	building bool              // version is not the one that is read
	tables   []Versioned       // the projection's, of WithTables
	target   Transaction       // nil if the projection has no target
	into     map[string]string // the tables that a replay writes, by those of the projection; else nil
	opened   map[string]any    // those of them that are open, a *readmodel.Table each
}

// tableOf returns the table of a model that tx writes. The error is Invalid for an alias that the
// projection has not declared, and for a table without versions during a blue/green rebuild.
func tableOf[T any](tx *Tx, m readmodel.Model[T]) (*readmodel.Table[T], error) {
	const op = "projection"
	a, versions := m.(*readmodel.Alias[T])
	if versions && !slices.ContainsFunc(tx.tables, func(t Versioned) bool { return t.Name() == a.Name() }) {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "table %s: the projection does not say that it is its own; see Projection.WithTables", a.Name())
	}
	if tx.into != nil {
		return replayTable(tx, m)
	}
	t, err := readmodel.VersionOf(m, tx.version)
	if err == nil && !versions && tx.building {
		err = mainstem.Refusef(mainstem.KindInvalid, op,
			"table %s: a rebuild beside it would change rows that are read: open it with readmodel.OpenAlias, or rebuild in place", t.Bucket().Name())
	}
	return t, err
}

// rowKey identifies a row: the space of its table and its key.
type rowKey struct{ space, key string }

// row is a typedRow of any type.
type row interface {
	is(space, key string) bool                          // whether it is the row with this space and key
	index(rows map[rowKey]row)                          // adds the row to rows
	expect(b *mainstem.Batch)                           // adds the condition that the row is as it was read
	order() int                                         // the number of its last change; 0 if it was not changed or is deleted
	write(ctx context.Context, b *mainstem.Batch) error // adds the write, if the row was changed
}

// typedRow is a row of a table of T, with its state as of now in the Tx.
type typedRow[T any] struct {
	table   *readmodel.Table[T]
	key     string
	value   T            // valid if live
	live    bool         // the row exists
	changed int          // the number of its last Put, Delete or Modify through the Tx; 0: none
	pending bool         // value and live come from a write that the batch had before
	read    bool         // it was read from the table; was is then valid
	was     kv.Condition // that the row is as it was read
}

// newTx returns a Tx for a batch without writes.
func newTx(b *mainstem.Batch) *Tx { return &Tx{batch: b} }

// newTxOn returns a Tx that sees the writes that b has already.
func newTxOn(b *mainstem.Batch) *Tx { return &Tx{batch: b, shared: b.Len() > 0} }

// as makes tx read and write for a projection and a version of its tables; building is true if that
// is not the version that is read.
func (tx *Tx) as(p *Projection, version int, building bool) *Tx {
	tx.version, tx.building, tx.tables = version, building, p.tables
	return tx
}

// Batch returns the batch of the commit, for other writes. Reads through tx may not see them. They
// precede the writes through tx.
func (tx *Tx) Batch() *mainstem.Batch { return tx.batch }

// searched is the number of rows up to which find searches a slice; for more rows there is a map.
const searched = 8

// find returns the row if it was used before, else nil.
func (tx *Tx) find(space, key string) row {
	if tx.byKey != nil {
		return tx.byKey[rowKey{space, key}]
	}
	for _, r := range tx.rows {
		if r.is(space, key) {
			return r
		}
	}
	return nil
}

// add adds a row that was not used before.
func (tx *Tx) add(space, key string, r row) {
	tx.rows = append(tx.rows, r)
	switch {
	case tx.byKey != nil:
		tx.byKey[rowKey{space, key}] = r
	case len(tx.rows) > searched:
		tx.byKey = make(map[rowKey]row)
		for _, r := range tx.rows {
			r.index(tx.byKey)
		}
	}
}

// rowOf returns the row of a table with a key, which it adds if it was not used before.
func rowOf[T any](tx *Tx, table *readmodel.Table[T], key string) *typedRow[T] {
	space := table.Bucket().Space()
	if r, ok := tx.find(space, key).(*typedRow[T]); ok {
		return r
	}
	r := &typedRow[T]{table: table, key: key}
	tx.add(space, key, r)
	return r
}

// Get returns the row of a model with a key, including earlier changes through tx, or NotFound. The
// commit depends on the row.
func Get[T any](ctx context.Context, tx *Tx, model readmodel.Model[T], key string) (T, error) {
	r, err := get(ctx, tx, model, key)
	if err == nil && !r.live {
		err = &mainstem.Error{Kind: mainstem.KindNotFound, Op: "get", Space: r.table.Bucket().Space(), Key: []byte(key)}
	}
	if err != nil {
		var none T
		return none, err
	}
	return r.value, nil
}

// get returns the row of a model with a key after it was read. It need not exist.
func get[T any](ctx context.Context, tx *Tx, model readmodel.Model[T], key string) (*typedRow[T], error) {
	table, err := tableOf(tx, model)
	if err != nil {
		return nil, err
	}
	r := rowOf(tx, table, key)
	if r.read || r.changed > 0 || r.pending {
		return r, nil
	}
	return r, r.load(ctx, tx)
}

// load reads the row: from the batch if an earlier write of the batch changes it, else from the
// table. After an error the row counts as not read.
func (r *typedRow[T]) load(ctx context.Context, tx *Tx) (err error) {
	bucket := r.table.Bucket()
	if tx.shared {
		if r.value, r.live, r.pending, err = bucket.Pending(tx.batch, r.key); r.pending || err != nil {
			r.pending = err == nil
			return err
		}
	}
	e, err := bucket.Get(ctx, r.key)
	switch {
	case err == nil:
		r.value, r.live, r.was = e.Value, true, kv.IfRevision(e.Revision)
	case errors.Is(err, mainstem.ErrNotFound):
		r.was = kv.IfAbsent()
	default:
		return err
	}
	r.read = true
	return nil
}

// Put adds a row to a model, or replaces the one with its key. The commit does not depend on the
// old row, unless it was read through tx or the table has indexes. An invalid model fails the
// batch.
func Put[T any](tx *Tx, model readmodel.Model[T], v T) {
	table, err := tableOf(tx, model)
	if err != nil {
		tx.batch.Fail(err)
		return
	}
	rowOf(tx, table, table.Key(v)).set(tx, v, true)
}

// Delete removes the row of a model with a key, if there is one. As for Put, the commit does not
// depend on the old row. An invalid model fails the batch.
func Delete[T any](tx *Tx, model readmodel.Model[T], key string) {
	table, err := tableOf(tx, model)
	if err != nil {
		tx.batch.Fail(err)
		return
	}
	var none T
	rowOf(tx, table, key).set(tx, none, false)
}

// Modify reads the row of a model with a key and replaces it by the result of change. If there is
// no row, old is the zero T and found is false. The result must have the same key. The commit
// depends on the row. If T is a pointer, later reads through tx see what change does to *old, also
// after an error.
func Modify[T any](ctx context.Context, tx *Tx, model readmodel.Model[T], key string, change func(old T, found bool) (T, error)) error {
	r, err := get(ctx, tx, model, key)
	if err != nil {
		return err
	}
	v, err := change(r.value, r.live)
	if err != nil {
		return err
	}
	if got := model.Key(v); got != key {
		return mainstem.Refusef(mainstem.KindInvalid, "projection", "the row %.60q of %T was given the key %.60q", key, v, got)
	}
	// change may have used tx, but r is still the row of tx: rows are pointers.
	r.set(tx, v, true)
	return nil
}

// expect makes b depend on all rows that were read.
func (tx *Tx) expect(b *mainstem.Batch) {
	for _, r := range tx.rows {
		r.expect(b)
	}
}

// flush adds the conditions and writes of all rows to the batch. For a table with indexes the write
// reads the old row.
func (tx *Tx) flush(ctx context.Context) error {
	slices.SortStableFunc(tx.rows, func(a, b row) int { return cmp.Compare(a.order(), b.order()) })
	for _, r := range tx.rows {
		r.expect(tx.batch)
		if err := r.write(ctx, tx.batch); err != nil {
			return err
		}
	}
	return nil
}

// set changes the row through tx.
func (r *typedRow[T]) set(tx *Tx, v T, live bool) {
	tx.changes++
	r.value, r.live, r.changed = v, live, tx.changes
}

func (r *typedRow[T]) order() int {
	if r.live {
		return r.changed
	}
	return 0
}

func (r *typedRow[T]) is(space, key string) bool {
	return key == r.key && space == r.table.Bucket().Space()
}

func (r *typedRow[T]) index(rows map[rowKey]row) { rows[rowKey{r.table.Bucket().Space(), r.key}] = r }

func (r *typedRow[T]) expect(b *mainstem.Batch) {
	if r.read {
		r.table.Bucket().ExpectTo(b, r.key, r.was)
	}
}

func (r *typedRow[T]) write(ctx context.Context, b *mainstem.Batch) error {
	switch {
	case r.changed == 0:
		return nil
	case r.live:
		return r.table.UpsertTo(ctx, b, r.value)
	}
	return r.table.DeleteTo(ctx, b, r.key)
}

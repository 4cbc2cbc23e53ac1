package projection

import (
	"context"
	"errors"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/kv"
)

// Tx is what one commit of a projection reads and writes. Reading sees what was written through it
// before, and makes the commit depend on what was read: if somebody else has changed it meanwhile, the
// events are handled again. So no update is lost, neither within a commit of many events nor
// between projections that change one row. It belongs to the call of the handler.
type Tx struct {
	batch    *mainstem.Batch
	shared   bool           // the batch held writes before; they are seen too
	rows     []row          // in the order in which they were touched first
	byKey    map[rowKey]row // the same, if there are many; else nil
	version  int            // of the tables
	building bool           // it is not the version that is read
	tables   []Versioned    // the projection's own
	target   Transaction    // nil if the projection has no target
}

// tableOf returns the version of a model that tx writes.
func tableOf[T any](tx *Tx, m readmodel.Model[T]) (*readmodel.Table[T], error) {
	const op = "projection"
	a, versions := m.(*readmodel.Alias[T])
	if versions && !slices.ContainsFunc(tx.tables, func(t Versioned) bool { return t.Name() == a.Name() }) {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "table %s: the projection does not say that it is its own; see Projection.WithTables", a.Name())
	}
	t, err := readmodel.VersionOf(m, tx.version)
	if err == nil && !versions && tx.building {
		err = mainstem.Refusef(mainstem.KindInvalid, op,
			"table %s: a rebuild beside it would change rows that are read: open it with readmodel.OpenAlias, or rebuild in place", t.Bucket().Name())
	}
	return t, err
}

type rowKey struct{ space, key string }

// row is a row of a table that was touched.
type row interface {
	is(space, key string) bool
	index(rows map[rowKey]row)
	expect(b *mainstem.Batch) // adds the condition that what was read is still that
	write(ctx context.Context, b *mainstem.Batch) error
}

// typedRow is a row of a table of T.
type typedRow[T any] struct {
	table   *readmodel.Table[T]
	key     string
	value   T
	live    bool
	changed bool
	pending bool         // value and live are those of a write that the batch held before
	read    bool         // it was read, as of
	was     kv.Condition // this
}

func newTx(b *mainstem.Batch) *Tx { return &Tx{batch: b} }

// newTxOn returns a Tx that sees what the batch holds already.
func newTxOn(b *mainstem.Batch) *Tx { return &Tx{batch: b, shared: b.Len() > 0} }

// as makes tx the one of a projection, of a version of its tables; building if it is not the one that is read.
func (tx *Tx) as(p *Projection, version int, building bool) *Tx {
	tx.version, tx.building, tx.tables = version, building, p.tables
	return tx
}

// Batch returns the batch of the commit, for writes of other kinds: they are not seen by
// reading through tx, and precede what is written through it.
func (tx *Tx) Batch() *mainstem.Batch { return tx.batch }

// searched is how many rows are searched one by one; more are found by a map.
const searched = 8

// find returns the row if it was touched, else nil.
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

func rowOf[T any](tx *Tx, table *readmodel.Table[T], key string) *typedRow[T] {
	space := table.Bucket().Space()
	if r, ok := tx.find(space, key).(*typedRow[T]); ok {
		return r
	}
	r := &typedRow[T]{table: table, key: key}
	tx.add(space, key, r)
	return r
}

// Get returns the row of a model with a key as of now in tx, or NotFound. The commit depends on it.
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

// get returns the row of a model with a key, read, which need not be live.
func get[T any](ctx context.Context, tx *Tx, model readmodel.Model[T], key string) (*typedRow[T], error) {
	table, err := tableOf(tx, model)
	if err != nil {
		return nil, err
	}
	r := rowOf(tx, table, key)
	if r.read || r.changed || r.pending {
		return r, nil
	}
	return r, r.load(ctx, tx)
}

// load reads the row: from the batch if that writes it already, else from the table. After an error
// it counts as not read.
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

// Put adds a row to a model, or replaces the one with its key.
func Put[T any](tx *Tx, model readmodel.Model[T], v T) {
	table, err := tableOf(tx, model)
	if err != nil {
		tx.batch.Fail(err)
		return
	}
	r := rowOf(tx, table, table.Key(v))
	r.value, r.live, r.changed = v, true, true
}

// Delete removes the row of a model with a key. One that is not there is no error.
func Delete[T any](tx *Tx, model readmodel.Model[T], key string) {
	table, err := tableOf(tx, model)
	if err != nil {
		tx.batch.Fail(err)
		return
	}
	var none T
	r := rowOf(tx, table, key)
	r.value, r.live, r.changed = none, false, true
}

// Modify replaces the row of a model with a key by what change returns for it; for the zero T and
// false if there is none.
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
	// change may have used tx, but rows stay where they are.
	r.value, r.live, r.changed = v, true, true
	return nil
}

// expect makes b depend on what was read.
func (tx *Tx) expect(b *mainstem.Batch) {
	for _, r := range tx.rows {
		r.expect(b)
	}
}

// flush writes what became of the rows into the batch. A table with indexes reads for that what a row was.
func (tx *Tx) flush(ctx context.Context) error {
	for _, r := range tx.rows {
		r.expect(tx.batch)
		if err := r.write(ctx, tx.batch); err != nil {
			return err
		}
	}
	return nil
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
	case !r.changed:
		return nil
	case r.live:
		return r.table.UpsertTo(ctx, b, r.value)
	}
	return r.table.DeleteTo(ctx, b, r.key)
}

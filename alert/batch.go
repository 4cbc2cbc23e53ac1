package alert

import (
	"context"
	"database/sql/driver"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// InsertTo adds to batch what an INSERT into the table called name would write: a
// new row, or what the triggers of the table make of the one that is there. So an
// alert is raised in the same commit as whatever else the batch does. values are by
// column: strings, numbers, bools, times.
//
// The batch carries a condition on the row: if somebody else writes it before
// the batch is committed, Commit fails with Conflict and writes nothing; make the
// batch anew then. A second Insert of the same key in one batch sees the first.
// Queries show the row as soon as the feed brings it: use [Server.Wait] with the
// receipt's Last.
//
// Mistakes are returned, and by Commit, too. The table must be kept in the log.
// [Server.Insert] does the same at once.
func (s *Server) InsertTo(ctx context.Context, batch *mainstem.Batch, name string, values map[string]any) error {
	err := s.insertInto(ctx, batch, name, values)
	if err != nil {
		batch.Fail(err)
	}
	return err
}

// Insert inserts one row into the table called name at once, as an INSERT does: queries
// show it when Insert returns. values are by column, as those of [Server.InsertTo]. For
// many rows, [Session.InsertRows] is quicker.
func (s *Server) Insert(ctx context.Context, name string, values map[string]any) error {
	columns, row := make([]string, 0, len(values)), make([]any, 0, len(values))
	for c, x := range values {
		columns, row = append(columns, c), append(row, x)
	}
	_, err := s.internal.InsertRows(ctx, name, columns, [][]any{row})
	return err
}

func (s *Server) insertInto(ctx context.Context, batch *mainstem.Batch, name string, values map[string]any) error {
	columns := make([]string, 0, len(values))
	given := make([]Value, 0, len(values))
	for c, x := range values {
		v, err := valueOf(x)
		if err != nil {
			return mainstem.Refusef(mainstem.KindInvalid, "alert", "the column %s: %w", c, err)
		}
		columns, given = append(columns, c), append(given, v)
	}
	var made []op
	// The transaction is only tried out: it shows what to write.
	_, err := s.do(ctx, reading, func(t *tx) error {
		made = nil
		tab, into, err := t.schema.columns(name, columns)
		if err != nil {
			return err
		}
		if tab.virtual {
			return mainstem.Refusef(mainstem.KindUnsupported, "alert", "the table %s is in memory only: no batch can write to it", tab)
		}
		row, err := complete(tab, into, given)
		if err != nil {
			return err
		}
		if err := t.assume(tab, row, batch); err != nil {
			return err
		}
		if _, err := s.internal.put(t, tab, row, nil, s.now()); err != nil {
			return err
		}
		made = append(made, t.ops...)
		return errTried
	})
	if err != errTried {
		return err
	}
	addTo(batch, made)
	return nil
}

// errTried takes a transaction back.
var errTried = mainstem.Refusef(mainstem.KindInvalid, "alert", "the transaction was tried only")

// assume makes the transaction build on what batch will write to the row's key.
func (t *tx) assume(tab *table, row []Value, batch *mainstem.Batch) error {
	key := keyOf(tab, row)
	for _, w := range slices.Backward(batch.Writes()) {
		if w.Space != tab.space || string(w.Key) != string(key.key) {
			continue
		}
		o := op{id: key.id, table: tab, given: true}
		if w.Op == mainstem.OpPut {
			o.now = &stored{values: make([]Value, len(tab.Columns))}
			if _, err := decodeRow(w.Value, tab, o.now.values); err != nil {
				return mainstem.Errorf(mainstem.KindCorrupt, "alert", "%w", err).At(tab.space, key.key)
			}
		}
		t.add(o)
		break
	}
	return nil
}

// addTo adds what a transaction made to a batch, with a condition on each key
// that the batch does not write yet.
func addTo(batch *mainstem.Batch, made []op) {
	for i := range made {
		o := &made[i]
		if o.given {
			continue
		}
		if !slices.ContainsFunc(batch.Conditions(), func(c mainstem.Condition) bool { return c.Space == o.space && string(c.Key) == string(o.key) }) {
			o.addCondition(batch)
		}
		o.write(batch)
	}
}

func bindInt(n int64) []driver.Value { return []driver.Value{n} }

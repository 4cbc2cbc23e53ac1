package alert

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// The mirror is a projection of the log: the writer's goroutine brings batches of the log into
// it, whole, and whether it was this server that wrote them makes no difference afterwards.
//
// A batch of this server is applied when it is committed (project), without reading it back.
// What others write is read from the feed (refresh): when a commit finds that the mirror is
// behind, and when somebody waits for a position: a caller of Wait, a reader of changes, and
// the follower, a goroutine that waits for every position that the feed brings.
//
// Own batches are applied in their order, and so are those of others, but an own batch may be
// applied before one of others that stands before it in the log. They cannot have changed the
// same record: the condition of the later one would have failed.

// transact runs do in a transaction of the mirror. If do fails, an undoable transaction is
// taken back. inside runs when it is committed and no query has begun yet.
func (s *Server) transact(u undo, do func() error, inside ...func()) error {
	if err := s.mirror.begin(s.quiet, u); err != nil {
		return s.lost(err)
	}
	err := do()
	if err == nil {
		return s.lost(s.mirror.commit(s.quiet, inside...))
	}
	s.recent.forget()
	if failed := s.mirror.rollback(s.quiet); failed != nil || u == final {
		return s.lost(errors.Join(err, failed))
	}
	return err
}

// project brings the batch of t, committed with the receipt r, into the mirror. Rows cannot
// fail any more, but for the mirror itself: the callers of jobs go on while they are applied,
// and queries wait for the gate.
func (s *Server) project(t *tx, r mainstem.Receipt, jobs []*job) error {
	from, rows := t.schema, !t.defines
	err := s.transact(undo(t.defines), func() error {
		if rows {
			s.applied.add(r)
			release(jobs)
		}
		return t.apply(r.Versions)
	}, func() {
		if !rows {
			s.adopt(from, t.schema)
			s.applied.add(r)
		}
	})
	if err != nil {
		return err
	}
	for _, f := range t.after {
		f()
	}
	return nil
}

// adopt makes a schema that of the server, if it is another one. It comes before the position
// of the change is added to applied: a caller that has waited for that finds the schema.
func (s *Server) adopt(from, to *schema) {
	if from == to {
		return
	}
	s.recent.forget()
	s.schema.Store(to)
	wake.Signal(s.changed)
}

// refresh applies what the feed holds and the mirror does not. The writer calls it, outside
// of transactions.
func (s *Server) refresh(ctx context.Context) error {
	for {
		again, err := s.refreshOnce(ctx)
		if err != nil || !again {
			return err
		}
	}
}

// refreshOnce is refresh up to a change of the tables: from there it goes on with other
// spaces. again reports that there may be more.
func (s *Server) refreshOnce(ctx context.Context) (again bool, err error) {
	records, reached, err := s.unapplied(ctx)
	if err != nil {
		return false, err
	}
	if len(records) == 0 {
		s.applied.advance(reached)
		return false, nil
	}
	t := s.newTx()
	defer t.release()
	from := t.schema
	err = s.transact(undoable, func() error {
		for i := range records {
			if err := t.applyRecord(&records[i]); err != nil {
				return err
			}
			if t.schema != from {
				reached = records[i].Position // a new table has been read as it is now: go on from here with its space
				break
			}
		}
		return nil
	}, func() {
		s.adopt(from, t.schema)
		s.applied.advance(reached)
	})
	return t.schema != from || len(records) == maxRecords, err
}

// maxRecords bounds the records that are applied at a time.
const maxRecords = 50_000

// unapplied returns the records of the feed that the mirror does not have, and how far it
// has read.
func (s *Server) unapplied(ctx context.Context) (records []mainstem.Record, reached mainstem.Position, err error) {
	reached = s.applied.upTo()
	for rec, err := range s.log.Feed(ctx, mainstem.Filter{Spaces: s.schema.Load().spaces, After: reached}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break // a space was dropped meanwhile; its record in the catalog comes
		}
		if err != nil {
			return nil, 0, err
		}
		if !s.applied.has(rec.Position) {
			records = append(records, rec.Clone())
		}
		reached = rec.Position
		if len(records) == maxRecords {
			break
		}
	}
	return records, reached, nil
}

// apply brings the changes into the mirror, now that the log has them. versions are those of
// what the batch wrote.
func (t *tx) apply(versions []mainstem.Version) error {
	for i := range t.ops {
		o := &t.ops[i]
		var v mainstem.Version
		if o.writes() {
			v, versions = versions[0], versions[1:]
		}
		if err := t.applyOp(o, v); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) applyOp(o *op, v mainstem.Version) error {
	if o.table == nil {
		rec := mainstem.Record{Space: o.space, Key: o.key, Value: o.value, Version: v}
		if o.value == nil {
			rec.Tombstone = mainstem.Deleted
		}
		return t.applyRecord(&rec)
	}
	if now := t.schema.tables[o.table.String()]; now == nil || now.ID != o.table.ID {
		return nil // another server has dropped the table meanwhile
	}
	if o.now != nil {
		o.now.version = v
	}
	t.s.recent.set(o)
	return t.s.mirror.write(t.ctx, o.table, o.before, o.now)
}

// applyRecord brings a record of the feed into the mirror.
func (t *tx) applyRecord(rec *mainstem.Record) error {
	if rec.Space == CatalogSpace {
		return t.applyCatalog(rec)
	}
	tab := t.schema.bySpace[rec.Space]
	if tab == nil {
		return nil // dropped since
	}
	return t.applyRow(tab, rec)
}

func (t *tx) applyRow(tab *table, rec *mainstem.Record) error {
	values := make([]Value, len(tab.Columns))
	if err := decodeKey(rec.Key, tab, values); err != nil {
		return t.skip(tab, rec, err)
	}
	t.s.recent.drop(opID(rec.Space, rec.Key))
	old, err := t.s.mirror.get(t.ctx, tab, values)
	if err != nil || old != nil && old.version >= rec.Version {
		return err
	}
	if !rec.Live() {
		if old == nil {
			return nil
		}
		return t.s.mirror.remove(t.ctx, tab, old.k)
	}
	origin, err := decodeRow(rec.Value, tab, values)
	if err != nil || origin == foreignRow {
		return t.skip(tab, rec, err)
	}
	next := &stored{version: origin.version(rec), values: values}
	if old != nil && tab.incr < 0 {
		next.k = old.k
	} else if next.k, err = t.number(tab, values); err != nil {
		return err
	}
	return t.s.mirror.write(t.ctx, tab, old, next)
}

// version returns the version under which the mirror knows a record. A row that is
// ahead of its table counts as older than it is, so that it is read again when the
// feed brings it after the change of the table.
func (o origin) version(rec *mainstem.Record) mainstem.Version {
	if o == newerRow {
		return rec.Version - 1
	}
	return rec.Version
}

// skip passes over a record that is no row of the table. It stays in the log.
func (t *tx) skip(tab *table, rec *mainstem.Record, err error) error {
	if err != nil {
		t.s.o.Logger.Error("alert: a record is no row", "table", tab.String(), "error", mainstem.Errorf(mainstem.KindCorrupt, "alert", "%w", err).At(rec.Space, rec.Key))
	}
	return nil
}

package readmodelpg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/internal/uuid"
	"github.com/mainstemdev/mainstem/kv"
)

// The state of projections whose log is not in this database: two tables.
//
//	mainstem_projections  store, projection: link, fence
//	mainstem_positions    store, projection, subscription: position, updated
//
// The position says up to which event a subscription (one for each partition) has written its rows.
// It is changed in the transaction of the rows.
//
// The fence is a number. Every transaction of rows depends on the fence as of the opening of its
// output. Increasing it makes all older transactions fail; see [state.fence].
//
// The link is a UUID that is in the log too, in the table projection-links/<store> by projection.
// It connects the rows with their log: without it, a database of another log, or one that was
// emptied, would be taken for one whose events are handled. The link is written to the database
// first and to the log second.
//
// Invariant: if the log has the link of a projection, the database has had it.

// state reads and writes these tables.
type state struct {
	schema                 string
	projections, positions string // quoted
}

// link is the row of a projection in mainstem_projections: the condition of its transactions.
type link struct {
	id    string
	fence int64
}

// linkRow is the link of a projection in the log.
type linkRow struct {
	ID string `json:"id"`
}

const (
	projectionsTable = "mainstem_projections"
	positionsTable   = "mainstem_positions"
)

func newState(schema string) *state {
	return &state{schema, quote(schema, projectionsTable), quote(schema, positionsTable)}
}

// name returns the name of the table of projections, for errors.
func (s *state) name() string { return s.schema + "." + projectionsTable }

// create makes the two tables if they are missing. With MustExist it returns NotFound instead.
func (s *state) create(ctx context.Context, db *DB) error {
	var tables int
	err := db.pool.QueryRow(ctx, "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname IN ($2, $3)",
		s.schema, projectionsTable, positionsTable).Scan(&tables)
	if err != nil || tables == 2 {
		return err
	}
	sql := "CREATE TABLE IF NOT EXISTS " + s.projections + ` (store text COLLATE "C", projection text COLLATE "C", link uuid NOT NULL, fence bigint NOT NULL, PRIMARY KEY (store, projection));
		CREATE TABLE IF NOT EXISTS ` + s.positions + ` (store text COLLATE "C", projection text COLLATE "C", subscription text COLLATE "C", position bigint NOT NULL, updated timestamptz NOT NULL,
			PRIMARY KEY (store, projection, subscription))`
	if db.opts.MustExist {
		return mainstem.Refusef(mainstem.KindNotFound, op, "there are no tables %s and %s", s.projections, s.positions).WithHint("run: " + sql)
	}
	return db.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, $2)", int32(lockTables), lockOf(s.schema)); err != nil {
			return err
		}
		if err := makeSchema(ctx, tx, s.schema); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// read returns the link of a projection; found is false if it has none. begun: it has positions.
func (s *state) read(ctx context.Context, on querier, source projection.Source) (l link, begun, found bool, err error) {
	err = on.QueryRow(ctx, "SELECT link::text, fence, EXISTS (SELECT FROM "+s.positions+" x WHERE x.store = p.store AND x.projection = p.projection) FROM "+
		s.projections+" p WHERE store = $1 AND projection = $2", source.Store.Name(), source.Projection).Scan(&l.id, &l.fence, &begun)
	if errors.Is(err, pgx.ErrNoRows) {
		return l, false, false, nil
	}
	return l, begun, err == nil, err
}

// links returns the table of links of a store in its log.
func links(source projection.Source) (*kv.Bucket[linkRow], error) {
	return kv.Open[linkRow](source.Store.Log(), "projection-links/"+source.Store.Name(), nil)
}

// linkOf returns the link of a projection. For a new projection it makes one, in the database and
// then in the log; several processes may do so at the same time. If log and database do not belong
// together, the error is Invalid.
func (db *DB) linkOf(ctx context.Context, source projection.Source) (link, error) {
	if err := db.state.create(ctx, db); err != nil {
		return link{}, explain(ctx, db.state.name(), true, err)
	}
	inLog, err := links(source)
	if err != nil {
		return link{}, err
	}
	for {
		// The log is read first: if it has the link, the database must have it by now.
		e, err := inLog.Get(ctx, source.Projection)
		known := err == nil
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			return link{}, err
		}
		l, begun, found, err := db.state.read(ctx, db.pool, source)
		switch {
		case err != nil:
			return link{}, explain(ctx, db.state.name(), false, err)
		case known && found && l.id == e.Value.ID:
			return l, nil
		case known && !found:
			return link{}, unlinked(source, "the database does not hold what it has written: it is another one, or was emptied")
		case known, begun:
			return link{}, unlinked(source, "the database holds what was computed from the events of another log")
		case !found:
			err = db.state.link(ctx, db, source, uuid.Random().String())
		default:
			if _, err = inLog.Create(ctx, source.Projection, linkRow{l.id}); errors.Is(err, mainstem.ErrExists) {
				err = nil // another process has written it first
			}
		}
		if err != nil {
			return link{}, explain(ctx, db.state.name(), true, err)
		}
	}
}

// unlinked returns the error for a database that does not belong to the log.
func unlinked(source projection.Source, why string) error {
	return mainstem.Refusef(mainstem.KindInvalid, op, "projection %s of store %s: %s", source.Projection, source.Store.Name(), why).
		WithHint("rebuild it in place, which clears its tables")
}

// link inserts the row of a new projection, unless another process has.
func (s *state) link(ctx context.Context, db *DB, source projection.Source, id string) error {
	_, err := db.pool.Exec(ctx, "INSERT INTO "+s.projections+" VALUES ($1, $2, $3::text::uuid, 1) ON CONFLICT DO NOTHING", source.Store.Name(), source.Projection, id)
	return err
}

// fence makes all transactions fail that were begun under an older fence, and returns the greatest
// position of the projection. Transactions that hold the row (see moveTo) commit first, and their
// positions are included.
func (s *state) fence(ctx context.Context, db *DB, source projection.Source) (mainstem.Position, error) {
	var p int64
	err := db.inTx(ctx, func(tx pgx.Tx) error {
		// This waits for transactions that have passed moveTo.
		if _, err := tx.Exec(ctx, "UPDATE "+s.projections+" SET fence = fence + 1 WHERE store = $1 AND projection = $2", source.Store.Name(), source.Projection); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT coalesce(max(position), 0) FROM "+s.positions+" WHERE store = $1 AND projection = $2", source.Store.Name(), source.Projection).Scan(&p)
	})
	return mainstem.Position(p), explain(ctx, s.name(), true, err)
}

// reset is fence that also removes the positions, and links the database to this log.
func (db *DB) reset(ctx context.Context, source projection.Source) error {
	s := db.state
	if err := s.create(ctx, db); err != nil {
		return explain(ctx, s.name(), true, err)
	}
	inLog, err := links(source)
	if err != nil {
		return err
	}
	e, err := inLog.Get(ctx, source.Projection)
	if errors.Is(err, mainstem.ErrNotFound) {
		e.Value.ID, err = uuid.Random().String(), nil
	}
	if err != nil {
		return err
	}
	err = db.inTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+s.projections+" AS p VALUES ($1, $2, $3::text::uuid, 1) ON CONFLICT (store, projection) DO UPDATE SET link = EXCLUDED.link, fence = p.fence + 1",
			source.Store.Name(), source.Projection, e.Value.ID)
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM "+s.positions+" WHERE store = $1 AND projection = $2", source.Store.Name(), source.Projection)
		}
		return err
	})
	if err != nil {
		return explain(ctx, s.name(), true, err)
	}
	_, err = inLog.Put(ctx, source.Projection, e.Value)
	return err
}

// position returns the position of a subscription; 0 if it has none.
func (s *state) position(ctx context.Context, on querier, source projection.Source) (mainstem.Position, error) {
	var p int64
	err := on.QueryRow(ctx, "SELECT coalesce(max(position), 0) FROM "+s.positions+" WHERE store = $1 AND projection = $2 AND subscription = $3",
		source.Store.Name(), source.Projection, source.Subscription).Scan(&p)
	return mainstem.Position(p), err
}

// movedError reports that a position has moved since it was read.
type movedError struct{}

func (*movedError) Error() string { return "the position has moved" }

// moveTo moves the position of a subscription in tx. It fails with a [*movedError] unless the
// position is from, and with a [*ConflictError] unless the row of the projection is l. It locks
// that row until tx ends, so that a fence cannot be increased between this check and the commit.
func (s *state) moveTo(ctx context.Context, tx pgx.Tx, source projection.Source, l link, from, to mainstem.Position) error {
	store, p := source.Store.Name(), source.Projection
	var b pgx.Batch
	b.Queue("SELECT FROM "+s.projections+" WHERE store = $1 AND projection = $2 AND link = $3::text::uuid AND fence = $4 FOR SHARE", store, p, l.id, l.fence)
	b.Queue("INSERT INTO "+s.positions+" AS x VALUES ($1, $2, $3, $4, now()) ON CONFLICT (store, projection, subscription) DO UPDATE SET position = EXCLUDED.position, updated = now() WHERE x.position = $5",
		store, p, source.Subscription, int64(to), int64(from))
	results := tx.SendBatch(ctx, &b)
	linked, err := results.Exec()
	moved, err2 := results.Exec()
	if err := errors.Join(err, err2, results.Close()); err != nil {
		return fmt.Errorf("move the position: %w", err)
	}
	switch {
	case linked.RowsAffected() == 0:
		return &ConflictError{fmt.Sprintf("projection %s is being changed, or another process has changed it", p)}
	case moved.RowsAffected() == 0:
		return &movedError{}
	}
	return nil
}

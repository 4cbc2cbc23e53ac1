package readmodelpg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/projection"
)

// How a projection into a table takes effect exactly once:
//
// If the log is in the same database, rows and checkpoint are one transaction (joined). All that a commit of a projection
// depends on, its control record and its lease too, is a condition of the batch in that transaction.
//
// Otherwise rows and position are one transaction of the database, on condition that the position was where this
// subscription knew it; the checkpoint in the log follows. What was not noted in the log is found by the position, and
// passed over. A subscription that should have ended, but does not know it yet, might commit rows after others have begun
// to clear or to divide anew: so each transaction depends on the fence too, a number that grows before that is done.

// sameDatabase is a log in PostgreSQL; engine/pglog has one.
type sameDatabase interface {
	SameDatabase(ctx context.Context, tx pgx.Tx) (bool, error)
	BatchInTx(ctx context.Context, tx pgx.Tx, b *mainstem.Batch) (mainstem.Receipt, error)
}

var _ projection.Target = (*DB)(nil)

// joined returns the log if it is in this database, else nil.
func (db *DB) joined(ctx context.Context, log mainstem.Log) (same sameDatabase, err error) {
	l, ok := log.(sameDatabase)
	if !ok {
		return nil, nil
	}
	err = db.inTx(ctx, func(tx pgx.Tx) error {
		ok, err = l.SameDatabase(ctx, tx)
		return err
	})
	if err != nil || !ok {
		return nil, explain(ctx, "of the log", false, err)
	}
	return l, nil
}

// Open implements [projection.Target].
func (db *DB) Open(ctx context.Context, s projection.Source) (projection.Output, error) {
	out := &output{db: db, log: s.Store.Log(), source: s}
	var err error
	if out.joined, err = db.joined(ctx, out.log); err != nil || out.joined != nil {
		return out, err
	}
	out.link, err = db.linkOf(ctx, s)
	return out, err
}

// Fence implements [projection.Target].
func (db *DB) Fence(ctx context.Context, s projection.Source) (p mainstem.Position, err error) {
	if same, err := db.joined(ctx, s.Store.Log()); err != nil || same != nil {
		return 0, err
	}
	if _, err := db.linkOf(ctx, s); err != nil {
		return 0, err
	}
	return db.state.fence(ctx, db, s)
}

// Reset implements [projection.Target].
func (db *DB) Reset(ctx context.Context, s projection.Source) error {
	if same, err := db.joined(ctx, s.Store.Log()); err != nil || same != nil {
		return err
	}
	return db.reset(ctx, s)
}

// output is what one subscription writes through.
type output struct {
	db     *DB
	log    mainstem.Log
	source projection.Source
	joined sameDatabase // the log, if it is in the same database
	link   link

	known    bool              // position is that of the database
	position mainstem.Position // everything up to it is in the tables
}

// Begin implements [projection.Output].
func (o *output) Begin(ctx context.Context) (projection.Transaction, error) {
	if o.joined == nil && !o.known {
		p, err := o.db.state.position(ctx, o.db.pool, o.source)
		if err != nil {
			return nil, explain(ctx, o.db.state.name(), false, err)
		}
		o.known, o.position = true, p
	}
	return &transaction{out: o, handled: o.position, rows: make(map[rowKey]touched)}, nil
}

// transaction is what the handlers of one commit have written. The database sees it when it is committed, so it may be tried
// again as it is.
type transaction struct {
	out     *output
	handled mainstem.Position
	rows    map[rowKey]touched
	applied bool // rows and position are committed, and the checkpoint may not be
}

// Handled implements [projection.Transaction].
func (x *transaction) Handled() mainstem.Position { return x.handled }

// Prepare implements [projection.Transaction].
func (x *transaction) Prepare(_ context.Context, b *mainstem.Batch) error {
	if x.out.joined == nil && (b.Len() > 0 || len(b.Conditions()) > 0) {
		return mainstem.Refusef(mainstem.KindInvalid, op,
			"projection %s writes the log and the database, which are one commit only if the log is in that database too (engine/pglog): divide it into two projections", x.out.source.Projection)
	}
	_, err := changesOf(x.rows) // so that what is wrong with an entry is the fault of its event
	return err
}

// Commit implements [projection.Transaction].
func (x *transaction) Commit(ctx context.Context, b *mainstem.Batch, upto mainstem.Position) (r mainstem.Receipt, err error) {
	if x.out.joined != nil {
		return x.commitJoined(ctx, b)
	}
	if !x.applied && upto > x.handled {
		x.out.known = false
		if err := x.apply(ctx, upto); err != nil {
			return r, err
		}
		x.out.known, x.out.position = true, upto
	}
	x.applied = true
	return x.out.log.Commit(ctx, b)
}

// commitJoined commits rows and batch as one transaction.
func (x *transaction) commitJoined(ctx context.Context, b *mainstem.Batch) (r mainstem.Receipt, err error) {
	c, err := changesOf(x.rows)
	if err != nil {
		return r, err
	}
	if c.batch.Len() == 0 {
		return x.out.log.Commit(ctx, b)
	}
	ended := false // its commit was asked for
	err = x.inTx(ctx, &ended, func(tx pgx.Tx) error {
		if err := c.run(ctx, tx); err != nil {
			return err
		}
		r, err = x.out.joined.BatchInTx(ctx, tx, b) // last: nobody else can commit to the log from here on
		return err
	})
	return r, x.failed(ctx, err, ended)
}

// inTx runs f in a transaction. It says whether the commit was tried: before that nothing is written, whatever fails.
func (x *transaction) inTx(ctx context.Context, ended *bool, f func(tx pgx.Tx) error) error {
	tx, err := x.out.db.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx)) // the error of f says more, and a connection that cannot roll back is closed
		return err
	}
	*ended = true
	return tx.Commit(ctx)
}

// failed returns the error of a commit.
func (x *transaction) failed(ctx context.Context, err error, ended bool) error {
	if err == nil {
		return nil
	}
	err = explain(ctx, "of projection "+x.out.source.Projection, ended, err)
	var own *mainstem.Error
	if !ended && errors.As(err, &own) && own.Outcome != mainstem.NotWritten {
		return own.WithOutcome(mainstem.NotWritten)
	}
	return err
}

// apply commits rows and position. If they turn out to be committed already, by an earlier try or by another process that
// handles the same events, there is nothing left to do.
func (x *transaction) apply(ctx context.Context, upto mainstem.Position) error {
	c, err := changesOf(x.rows)
	if err != nil {
		return err
	}
	s, o := x.out.db.state, x.out
	ended := false
	err = x.inTx(ctx, &ended, func(tx pgx.Tx) error {
		if err := s.moveTo(ctx, tx, o.source, o.link, x.handled, upto); err != nil {
			return err
		}
		return c.run(ctx, tx)
	})
	var moved *movedError
	if errors.As(err, &moved) {
		now, rerr := s.position(ctx, o.db.pool, o.source)
		switch {
		case rerr != nil:
			err = rerr
		case now >= upto:
			return nil
		default:
			err = &ConflictError{fmt.Sprintf("projection %s has handled events up to %d in the database, and not up to %d", o.source.Subscription, now, x.handled)}
		}
	}
	if err = x.failed(ctx, err, ended); err == nil {
		return nil
	}
	var own *mainstem.Error
	if errors.As(err, &own) && own.Outcome == mainstem.Unknown {
		return own.WithOutcome(mainstem.NotWritten) // the batch is not; what became of the rows, the position says to the next try
	}
	return err
}

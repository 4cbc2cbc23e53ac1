package readmodelpg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/projection"
)

// How the events of a projection take effect exactly once.
//
// If the log is in the same database (joined), one transaction writes the rows and the batch with
// the checkpoint. All conditions of the commit, such as the control record and the lease of the
// projection, are conditions of that batch.
//
// Otherwise a commit has two steps:
//
//  1. One transaction of the database writes the rows and moves the position of the subscription.
//     Its conditions are the entries that were read (rows.go), the position where the subscription
//     left it, and the fence (state.go).
//  2. The log commits the batch with the checkpoint.
//
// This order matters. A process may be killed between the steps: then the position is ahead of the
// checkpoint. The next process reads both, and skips the events up to the position
// ([transaction.Handled]). With the opposite order, events would be lost.
//
// A subscription may have ended without noticing it, such as one that has lost its lease. Its
// commits in the log fail by the conditions there, but that comes after step 1. So a rebuild, or a
// change of the number of partitions, increases the fence before it clears tables or reads
// positions: transactions under the old fence fail.
//
// Invariant: when the checkpoint passes an event that was handled, the rows of the event are
// committed.

// sameDatabase is a log in PostgreSQL, such as that of engine/pglog.
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

// output is the output of one subscription. It belongs to the goroutine of the subscription.
type output struct {
	db     *DB
	log    mainstem.Log
	source projection.Source
	joined sameDatabase // the log, if it is in the same database; else nil
	link   link         // when the output was opened; unused if joined

	known    bool              // position is known; false after a failure
	position mainstem.Position // that of the subscription in the database: the rows of all events up to it are written
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

// transaction is the writes of the handlers in one commit. No write is sent to the database before
// Commit, so Commit may be called again after a failure.
type transaction struct {
	out     *output
	handled mainstem.Position
	rows    map[rowKey]touched
	changes int  // of rows so far
	applied bool // step 1 is done; step 2 may not be
}

// Handled implements [projection.Transaction].
func (x *transaction) Handled() mainstem.Position { return x.handled }

// Prepare implements [projection.Transaction].
func (x *transaction) Prepare(_ context.Context, b *mainstem.Batch) error {
	if x.out.joined == nil && (b.Len() > 0 || len(b.Conditions()) > 0) {
		return mainstem.Refusef(mainstem.KindInvalid, op,
			"projection %s writes the log and the database, which are one commit only if the log is in that database too (engine/pglog): divide it into two projections", x.out.source.Projection)
	}
	_, err := changesOf(x.rows) // an entry that cannot be stored is an error of its event, not of the commit
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

// commitJoined commits the rows and the batch in one transaction.
func (x *transaction) commitJoined(ctx context.Context, b *mainstem.Batch) (r mainstem.Receipt, err error) {
	c, err := changesOf(x.rows)
	if err != nil {
		return r, err
	}
	if c.batch.Len() == 0 {
		return x.out.log.Commit(ctx, b)
	}
	ended := false // the commit was requested
	err = x.inTx(ctx, &ended, func(tx pgx.Tx) error {
		if err := c.run(ctx, tx); err != nil {
			return err
		}
		r, err = x.out.joined.BatchInTx(ctx, tx, b) // last, since no other commit of the log can proceed from here on
		return err
	})
	return r, x.failed(ctx, err, ended)
}

// inTx runs f in a transaction. It sets ended when it requests the commit: before that, nothing is
// written, whatever fails.
func (x *transaction) inTx(ctx context.Context, ended *bool, f func(tx pgx.Tx) error) error {
	tx, err := x.out.db.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx)) // the error of f matters more; a connection that cannot roll back is closed
		return err
	}
	*ended = true
	return tx.Commit(ctx)
}

// failed returns the error of a commit with its outcome: NotWritten if the commit was not
// requested.
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

// apply does step 1. It returns nil too if the position is at upto already, because an earlier try
// or another process has handled the same events.
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
		return own.WithOutcome(mainstem.NotWritten) // the batch is not written; the next try finds by the position whether the rows are
	}
	return err
}

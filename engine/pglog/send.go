package pglog

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
)

// The names under which connections have prepared the calls of the functions commit and
// append of one schema begin with these.
const (
	commitStatement = "mainstem_commit_"
	appendStatement = "mainstem_append_"
)

// Formats of all parameters and all columns: binary.
var binaryFormat = []int16{1}

func commitSQL(d dialect, function string) string {
	return d.sql("SELECT o_base, o_time, o_versions, o_failures, o_duplicates, o_heads FROM {schema}." + function + placeholders(params))
}

func appendSQL(d dialect) string { return d.sql("SELECT {schema}.append" + placeholders(appendParams)) }

// placeholders returns the list of n parameters.
func placeholders(n int) string {
	args := make([]string, n)
	for i := range args {
		args[i] = "$" + strconv.Itoa(i+1)
	}
	return "(" + strings.Join(args, ", ") + ")"
}

// Levels of synchronous_commit, from the least.
var levels = []string{"off", "local", ""}

// synchronous returns the synchronous_commit that gives every batch of a group what it
// asked for; null means that of the session, which flushes. OS needs a flush too: what
// is not flushed is lost when the server's own process is killed. Interval does not if
// the server writes in the background often enough.
func (l *Log) synchronous(batches []*mainstem.Batch) []byte {
	strongest := 0
	for _, b := range batches {
		d := b.Durability
		if d == mainstem.DefaultDurability {
			d = l.opts.Durability
		}
		period, interval := d.Period()
		level := 2
		switch {
		case interval && period >= asyncDelays*l.server.walDelay:
			level = 0
		case interval, d == mainstem.OS:
			level = 1
		}
		strongest = max(strongest, level)
	}
	if levels[strongest] == "" {
		return nil
	}
	return []byte(levels[strongest])
}

// asyncDelays is after how many wal_writer_delays an asynchronous commit is on stable
// storage at the latest, by PostgreSQL's documentation.
const asyncDelays = 3

// send makes the call in a transaction of its own and says what became of it if it failed.
func (l *Log) send(ctx context.Context, c *call) (*result, fate, error) {
	if err := l.publishHold(ctx); err != nil {
		return nil, again, err
	}
	c.params[paramNow] = bigint(l.clock.reading())
	conn, err := l.commits.Acquire(ctx)
	if err != nil {
		return nil, again, err
	}
	defer conn.Release()
	started := false
	var res *result
	if c.single != nil {
		if res, err = l.execute(ctx, conn.Conn(), appendStatement, l.sql.append, c, &started); err == nil && res == nil {
			c, started = c.general(), false // nothing was written
		}
	}
	if res == nil && err == nil {
		res, err = l.execute(ctx, conn.Conn(), commitStatement, l.sql.commit, c, &started)
	}
	switch {
	case err == nil:
		return res, refused, nil
	case !started && fateOf(err) != refused:
		return nil, again, err
	case started && res == nil && errors.Is(err, errUnreadable):
		return nil, lost, err // it was committed, but what it became cannot be read
	}
	return nil, fateOf(err), err
}

var errUnreadable = errors.New("the answer of the server cannot be read")

// execute makes the call on a connection. started is set before it is sent. There is no
// result if the server declined a single.
func (l *Log) execute(ctx context.Context, conn *pgx.Conn, name, sql string, c *call, started *bool) (*result, error) {
	statement, err := conn.Prepare(ctx, name+l.dialect.schema, sql)
	if err != nil {
		return nil, err
	}
	*started = true
	rr := conn.PgConn().ExecPrepared(ctx, statement.Name, c.params, binaryFormat, binaryFormat)
	var row [][]byte
	for rr.NextRow() {
		for _, v := range rr.Values() {
			row = append(row, bytes.Clone(v))
		}
	}
	// Only the end of the answer says that the transaction was committed.
	if _, err := rr.Close(); err != nil {
		return nil, err
	}
	decode := decodeResult
	if c.single != nil {
		decode = decodeSingle
	}
	res, err := decode(c, row)
	if err != nil {
		return nil, errors.Join(errUnreadable, err)
	}
	return res, nil
}

// BatchInTx commits b as a part of the transaction tx, together with whatever else is
// done in it: when tx is committed, all of it becomes true. The receipt is final, except
// that nothing has happened if tx is rolled back.
//
// From this call until tx ends nobody else can commit to the log: call it last, and
// commit soon. tx must be READ COMMITTED, the default; in a stricter one the call fails
// with Unavailable when something was committed to the log after tx began to read. A
// Conflict, and any other refusal by the log, leaves tx usable and nothing of b in it;
// other errors end it. b.Durability has no effect: synchronous_commit of tx decides.
//
// tx must be of the database of the log, and of a connection whose user may write there.
func (l *Log) BatchInTx(ctx context.Context, tx pgx.Tx, b *mainstem.Batch) (mainstem.Receipt, error) {
	if err := b.Validate(l.opts.Limits); err != nil {
		return mainstem.Receipt{}, err
	}
	receipt, err := l.batchInTx(ctx, tx, b)
	if err != nil {
		var own *mainstem.Error
		err = l.mapError(ctx, "commit in transaction", err)
		if errors.As(err, &own) {
			own.Outcome = mainstem.NotWritten
		}
		return mainstem.Receipt{}, b.Explained(ctx, err)
	}
	return receipt, nil
}

func (l *Log) batchInTx(ctx context.Context, tx pgx.Tx, b *mainstem.Batch) (mainstem.Receipt, error) {
	ctx, end, err := l.begin(ctx, "commit in transaction")
	if err != nil {
		return mainstem.Receipt{}, err
	}
	defer end()
	conn := tx.Conn()
	if conn == nil || conn.PgConn().TxStatus() != 'T' {
		return mainstem.Receipt{}, mainstem.Errorf(mainstem.KindInvalid, "commit in transaction", "the transaction is not open")
	}
	c, err := encode([]*mainstem.Batch{b}, true)
	if err != nil {
		return mainstem.Receipt{}, err
	}
	c.params[paramNow] = bigint(l.clock.reading()) // publishing a hold could wait for tx
	started := false
	res, err := l.execute(ctx, conn, commitStatement, l.sql.inside, c, &started)
	if err != nil {
		return mainstem.Receipt{}, err
	}
	if p, ok := res.repeats[0]; ok {
		return p.receipt(), nil
	}
	f, failed := res.failures[0]
	switch {
	case failed && f.Space > 0:
		return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "commit in transaction", Space: c.names[f.Space-1]}
	case failed:
		return mainstem.Receipt{}, f.explain(b, 0)
	}
	if c.ttl > 0 {
		l.sweeper.expiresAt(l.clock.now() + c.ttl + int64(time.Second)) // unless it is committed later: then the next round finds it
	}
	return res.receipt(b.Len())
}

// SameDatabase reports whether tx is of the database of the log, so that [Log.BatchInTx] commits to this log and to no
// other.
func (l *Log) SameDatabase(ctx context.Context, tx pgx.Tx) (bool, error) {
	const op = "compare databases"
	called, end, err := l.begin(ctx, op)
	if err != nil {
		return false, err
	}
	defer end()
	var one, other database
	err = one.read(called, l.reads)
	if err == nil {
		err = other.read(called, tx)
	}
	return err == nil && one == other, l.mapError(ctx, op, err)
}

// database tells one database from another: by the moment when its server was started, and its number there.
type database struct {
	started string
	oid     int64
}

func (d *database) read(ctx context.Context, c rowQuerier) error {
	return c.QueryRow(ctx, "SELECT extract(epoch FROM pg_postmaster_start_time())::text, (SELECT oid::bigint FROM pg_database WHERE datname = current_database())").
		Scan(&d.started, &d.oid)
}

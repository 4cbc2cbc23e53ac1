package readmodelpg

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
)

// Options tune a [DB]. Nil and zero fields mean the defaults.
type Options struct {
	// Schema is where the tables are whose names say no schema, and where it is noted how far projections have come.
	// Default "public". It is made if it is not there.
	Schema string
	// MustExist changes nothing in the schema of the database: tables, columns and indexes that are not there are an
	// error. For programs whose user may not make them.
	MustExist bool
}

// DefaultSchema is where tables are unless [Options] say otherwise.
const DefaultSchema = "public"

// DB is a PostgreSQL database that holds read models. It is a [projection.Target]. It holds nothing but the pool, which stays the
// caller's to close, and is safe for concurrent use.
type DB struct {
	pool  *pgxpool.Pool
	opts  Options
	state *state
}

// New returns the database that pool connects to, version 14 or newer, with the encoding UTF8. It does not connect. The
// transactions are READ COMMITTED whatever the default of the session is.
func New(pool *pgxpool.Pool, o *Options) (*DB, error) {
	if pool == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "the pool is nil")
	}
	db := &DB{pool: pool}
	if o != nil {
		db.opts = *o
	}
	if db.opts.Schema == "" {
		db.opts.Schema = DefaultSchema
	}
	if err := checkName("schema", db.opts.Schema); err != nil {
		return nil, err
	}
	db.state = newState(db.opts.Schema)
	return db, nil
}

// querier is a pool or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// split returns the schema and the name of a table.
func (db *DB) split(name string) (schema, table string, err error) {
	schema, table, found := strings.Cut(name, ".")
	if !found {
		schema, table = db.opts.Schema, name
	}
	if err := checkName("schema", schema); err != nil {
		return "", "", err
	}
	return schema, table, checkName("table", table)
}

// inTx runs f in a transaction.
func (db *DB) inTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, f)
}

package readmodelpg

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
)

// Options configure a [DB]. Nil and zero fields mean the defaults.
type Options struct {
	// Schema is the schema of tables whose names have none, and of the positions of projections.
	// Default "public". It is made if it does not exist.
	Schema string
	// MustExist forbids changes of the database's schema, for programs whose user may not make
	// them. A table, column or index that is missing is then NotFound, with the SQL to make it as a
	// hint.
	MustExist bool
}

// DefaultSchema is the default of [Options.Schema].
const DefaultSchema = "public"

// DB is a PostgreSQL database that holds read models. It is a [projection.Target]. It needs no
// Close: its only resource is the pool, which belongs to the caller. All methods may be called from
// many goroutines.
type DB struct {
	pool  *pgxpool.Pool
	opts  Options
	state *state
}

// New returns the database that pool connects to: version 14 or newer, with the encoding UTF8. It
// does not connect. Its transactions are READ COMMITTED, whatever the default of the session is.
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

// split returns the schema and the name of the table called name.
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

// inTx runs f in a transaction, and commits it if f returns nil.
func (db *DB) inTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, f)
}

package engines

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// QuietPebble is a logger for bare Pebble that keeps to itself, but for what ends the
// program: a failed write-ahead log must not look like a fast one.
type QuietPebble struct{}

// Infof implements pebble.Logger.
func (QuietPebble) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (QuietPebble) Errorf(string, ...any) {}

// Fatalf implements pebble.Logger. It does not return.
func (QuietPebble) Fatalf(format string, args ...any) { pebble.DefaultLogger.Fatalf(format, args...) }

// maxConns is how many connections a bare pool on PostgreSQL has: one for each client
// of the case with the most.
const maxConns = 32

// Schema is a bare pool on PostgreSQL in a schema of its own. Commits wait for fsync.
type Schema struct {
	*pgxpool.Pool
	drop func() error
}

// OpenSchema connects to a server and makes a schema with tables, which are SQL.
func OpenSchema(ctx context.Context, url, tables string) (*Schema, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	name := NewSchema()
	config.ConnConfig.RuntimeParams["search_path"] = name
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	config.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &Schema{pool, func() error { return DropSchema(context.WithoutCancel(ctx), url, name) }}
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+name+";"+tables, pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends the connections and removes the schema.
func (s *Schema) Close() error {
	s.Pool.Close()
	return s.drop()
}

package peers

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// maxConns is how many connections a bare pool on PostgreSQL has: one for each client
// of the case with the most.
const maxConns = 32

// Schema is a bare pool on PostgreSQL in a schema of its own. Commits wait for fsync.
type Schema struct {
	*pgxpool.Pool
	drop func() error
}

// OpenSchema connects to the server that the user named and makes a schema with tables,
// which are SQL. Without an address the error matches [suite.ErrSkip].
func OpenSchema(ctx context.Context, env *suite.Env, tables string) (*Schema, error) {
	url, err := env.Address(engines.PostgreSQL)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	name := engines.NewSchema()
	config.ConnConfig.RuntimeParams["search_path"] = name
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	config.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &Schema{pool, func() error { return engines.DropSchema(context.WithoutCancel(ctx), url, name) }}
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

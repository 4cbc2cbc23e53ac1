package kv

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

const pairsTable = `CREATE TABLE pairs (
	tbl text COLLATE "C", key text COLLATE "C", value bytea NOT NULL, revision bigint NOT NULL DEFAULT 1, PRIMARY KEY (tbl, key))`

// postgresTable is one table of PostgreSQL, by pgx.
func postgresTable() kv.Factory {
	const reason = "a table tells nobody; a trigger with NOTIFY would be another design"
	return kv.Factory{
		Name: "postgres-fsync", Durability: suite.Fsync, Transport: suite.LoopbackTCP, Address: engines.PostgreSQL, ScaleKeys: slowScale,
		Note:  "one table with a primary key, one statement for each call, a pool of pgx",
		Lacks: map[string]string{"watch": reason}, Skip: suite.NeedAddress(engines.PostgreSQL),
		Open: func(ctx context.Context, env *suite.Env, _ string) (kv.Store, error) {
			schema, err := peers.OpenSchema(ctx, env, pairsTable)
			if err != nil {
				return nil, err
			}
			return &postgresStore{pool: schema}, nil
		},
	}
}

type postgresStore struct {
	pool *peers.Schema
}

func (s *postgresStore) exec(ctx context.Context, sql string, args ...any) error {
	_, err := s.pool.Exec(ctx, sql, args...)
	return err
}

func (s *postgresStore) Set(ctx context.Context, table, key string, value []byte) error {
	return s.exec(ctx, `INSERT INTO pairs (tbl, key, value) VALUES ($1, $2, $3)
		ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value, revision = pairs.revision + 1`, table, key, value)
}

func (s *postgresStore) SetMany(ctx context.Context, table string, pairs []kv.Pair) error {
	keys, values := make([]string, len(pairs)), make([][]byte, len(pairs))
	for i, p := range pairs {
		keys[i], values[i] = p.Key, p.Value
	}
	return s.exec(ctx, `INSERT INTO pairs (tbl, key, value) SELECT $1, * FROM unnest($2::text[], $3::bytea[])
		ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value, revision = pairs.revision + 1`, table, keys, values)
}

func (s *postgresStore) Get(ctx context.Context, table, key string) ([]byte, error) {
	v, err := s.Read(ctx, table, key)
	return v.Value, err
}

func (s *postgresStore) GetMany(ctx context.Context, table string, keys []string) ([][]byte, error) {
	rows, err := s.pool.Query(ctx, `SELECT p.value FROM unnest($2::text[]) WITH ORDINALITY AS k(key, n)
		LEFT JOIN pairs p ON p.tbl = $1 AND p.key = k.key ORDER BY k.n`, table, keys)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[[]byte])
}

func (s *postgresStore) Delete(ctx context.Context, table, key string) error {
	return s.exec(ctx, "DELETE FROM pairs WHERE tbl = $1 AND key = $2", table, key)
}

func (s *postgresStore) Keys(ctx context.Context, table string) ([]string, error) {
	rows, err := s.pool.Query(ctx, "SELECT key FROM pairs WHERE tbl = $1", table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (s *postgresStore) Page(ctx context.Context, table string, offset, limit int) ([]string, error) {
	rows, err := s.pool.Query(ctx, "SELECT key FROM pairs WHERE tbl = $1 ORDER BY key OFFSET $2 LIMIT $3", table, offset, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (s *postgresStore) Drop(ctx context.Context, table string) error {
	return s.exec(ctx, "DELETE FROM pairs WHERE tbl = $1", table)
}

// Read implements [kv.Swapper].
func (s *postgresStore) Read(ctx context.Context, table, key string) (v kv.Version, err error) {
	err = s.pool.QueryRow(ctx, "SELECT value, revision FROM pairs WHERE tbl = $1 AND key = $2", table, key).Scan(&v.Value, &v.Revision)
	if errors.Is(err, pgx.ErrNoRows) {
		err = kv.ErrNotFound
	}
	return v, err
}

// Swap implements [kv.Swapper].
func (s *postgresStore) Swap(ctx context.Context, table, key string, old kv.Version, value []byte) (kv.Version, error) {
	t, err := s.pool.Exec(ctx, "UPDATE pairs SET value = $3, revision = revision + 1 WHERE tbl = $1 AND key = $2 AND revision = $4",
		table, key, value, int64(old.Revision))
	if err == nil && t.RowsAffected() == 0 {
		err = kv.ErrConflict
	}
	return kv.Version{Revision: old.Revision + 1, Value: value}, err
}

func (s *postgresStore) Close() error {
	return s.pool.Close()
}

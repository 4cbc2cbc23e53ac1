package event

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/event"
)

// postgresPerEvent is an event store in two tables, as event stores in Go write
// them: a transaction for each append that locks the stream's row, and a statement
// for each event.
func postgresPerEvent() event.Factory {
	return event.Factory{
		Name: "postgres-fsync", Durability: suite.Fsync, Transport: suite.LoopbackTCP, Address: engines.PostgreSQL, ScaleEvents: slowScale, Skip: suite.NeedAddress(engines.PostgreSQL),
		Note:  "pgx: BEGIN, SELECT FOR UPDATE, an INSERT for each event, UPDATE, COMMIT; positions of a sequence, which may become visible out of order",
		Lacks: map[string]string{"subscribe": "it would have to poll", "feed/catch-up": "it would have to poll"},
		Open: func(ctx context.Context, env *suite.Env, _ string) (event.Store, error) {
			schema, err := peers.OpenSchema(ctx, env, postgresTables)
			if err != nil {
				return nil, err
			}
			return &postgresStore{pool: schema}, nil
		},
	}
}

const postgresTables = `
CREATE TABLE streams (
	id bigserial PRIMARY KEY, stream_id varchar(500) UNIQUE NOT NULL, version bigint NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE events (
	global_position bigserial PRIMARY KEY, stream_id varchar(500) NOT NULL, version bigint NOT NULL,
	event_id uuid NOT NULL DEFAULT gen_random_uuid(), event_type varchar(500) NOT NULL, data bytea NOT NULL,
	metadata jsonb, timestamp timestamptz NOT NULL DEFAULT now(), UNIQUE (stream_id, version));
CREATE INDEX ON events (event_type);
CREATE INDEX ON events (timestamp)`

type postgresStore struct {
	pool *peers.Schema
}

func (s *postgresStore) Append(ctx context.Context, stream string, expected int64, events []event.Event) (version uint64, err error) {
	for {
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
			version, err = appendIn(ctx, tx, stream, expected, events)
			return err
		})
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "23505" { // unique_violation
			return version, err
		}
		if expected != event.AnyVersion {
			return 0, event.ErrConflict
		}
	}
}

func appendIn(ctx context.Context, tx pgx.Tx, stream string, expected int64, events []event.Event) (uint64, error) {
	var version int64
	err := tx.QueryRow(ctx, "SELECT version FROM streams WHERE stream_id = $1 FOR UPDATE", stream).Scan(&version)
	fresh := errors.Is(err, pgx.ErrNoRows)
	if err != nil && !fresh {
		return 0, err
	}
	if expected != event.AnyVersion && version != expected {
		return 0, event.ErrConflict
	}
	if fresh {
		if _, err := tx.Exec(ctx, "INSERT INTO streams (stream_id, version) VALUES ($1, 0)", stream); err != nil {
			return 0, err
		}
	}
	for i := range events {
		version++
		var position int64
		err := tx.QueryRow(ctx, `INSERT INTO events (stream_id, version, event_type, data, metadata)
			VALUES ($1, $2, $3, $4, $5) RETURNING global_position`, stream, version, events[i].Type, events[i].Data, events[i].Metadata).Scan(&position)
		if err != nil {
			return 0, err
		}
	}
	_, err = tx.Exec(ctx, "UPDATE streams SET version = $2, updated_at = now() WHERE stream_id = $1", stream, version)
	return uint64(version), err
}

const postgresColumns = "SELECT stream_id, version, global_position, event_type, data, metadata FROM events "

func (s *postgresStore) Load(ctx context.Context, stream string, from uint64, into []event.Recorded) ([]event.Recorded, error) {
	return s.query(ctx, into, postgresColumns+"WHERE stream_id = $1 AND version >= $2 ORDER BY version", stream, int64(from))
}

func (s *postgresStore) Feed(ctx context.Context, after uint64, limit int, into []event.Recorded) ([]event.Recorded, error) {
	return s.query(ctx, into, postgresColumns+"WHERE global_position > $1 ORDER BY global_position LIMIT $2", int64(after), limit)
}

func (s *postgresStore) query(ctx context.Context, into []event.Recorded, sql string, args ...any) ([]event.Recorded, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return into, err
	}
	return pgx.AppendRows(into, rows, func(row pgx.CollectableRow) (r event.Recorded, err error) {
		err = row.Scan(&r.Stream, &r.Version, &r.Position, &r.Type, &r.Data, &r.Metadata)
		return r, err
	})
}

func (s *postgresStore) Info(ctx context.Context, stream string) (i event.Info, err error) {
	err = s.pool.QueryRow(ctx, `SELECT version, (SELECT count(*) FROM events WHERE stream_id = $1) FROM streams WHERE stream_id = $1`, stream).Scan(&i.Version, &i.Count)
	return i, err
}

func (s *postgresStore) LastPosition(ctx context.Context) (p uint64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT coalesce(max(global_position), 0) FROM events").Scan(&p)
	return p, err
}

// DiskBytes implements [event.Sizer].
func (s *postgresStore) DiskBytes(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT pg_total_relation_size('events') + pg_total_relation_size('streams')").Scan(&n)
	return n, err
}

func (s *postgresStore) Clear(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, "TRUNCATE events, streams")
	return err
}

func (s *postgresStore) Close() error {
	return s.pool.Close()
}

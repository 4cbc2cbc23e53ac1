package pglog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// perEvent is the yardstick of the benchmarks: an event store as they are often written
// on PostgreSQL, one transaction with one statement for each event. Like what it stands
// for it has events as JSON, keys of up to 500 characters in the table and its indexes,
// and a row for each stream that the transaction locks.
type perEvent struct{ pool *pgxpool.Pool }

const perEventSchema = `
	CREATE TABLE streams (
		id bigserial PRIMARY KEY, stream_id varchar(500) NOT NULL UNIQUE, category varchar(250) NOT NULL,
		version bigint NOT NULL DEFAULT 0, created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now());
	CREATE TABLE events (
		global_position bigserial PRIMARY KEY, stream_id varchar(500) NOT NULL, version bigint NOT NULL,
		event_id uuid NOT NULL DEFAULT gen_random_uuid(), event_type varchar(500) NOT NULL, data jsonb NOT NULL,
		metadata jsonb NOT NULL DEFAULT '{}', timestamp timestamptz NOT NULL DEFAULT now(), UNIQUE (stream_id, version));
	CREATE INDEX events_stream ON events (stream_id, version);
	CREATE INDEX events_type ON events (event_type);
	CREATE INDEX events_timestamp ON events (timestamp);`

func openPerEvent(b *testing.B, url string, conns int) *perEvent {
	b.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = int32(conns)
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if _, err := pool.Exec(b.Context(), perEventSchema); err != nil {
		b.Fatal(err)
	}
	return &perEvent{pool}
}

// storedEvent is what the yardstick returns for an event.
type storedEvent struct {
	ID        string
	StreamID  string
	Type      string
	Data      []byte
	Metadata  map[string]string
	Version   int64
	Position  uint64
	Timestamp time.Time
}

// append appends events to a stream, whatever its version is.
func (p *perEvent) append(ctx context.Context, stream string, events [][]byte) ([]storedEvent, error) {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx) // does nothing after a commit
	var version int64
	err = tx.QueryRow(ctx, "SELECT version FROM streams WHERE stream_id = $1 FOR UPDATE", stream).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = tx.Exec(ctx, "INSERT INTO streams (stream_id, category, version) VALUES ($1, $2, 0)", stream, "bench")
	}
	if err != nil {
		return nil, err
	}
	out := make([]storedEvent, len(events))
	for i, data := range events {
		version++
		metadata, err := json.Marshal(map[string]string{})
		if err != nil {
			return nil, err
		}
		e := &out[i]
		e.StreamID, e.Type, e.Data, e.Version = stream, "OrderCreated", data, version
		err = tx.QueryRow(ctx, `INSERT INTO events (stream_id, version, event_type, data, metadata) VALUES ($1, $2, $3, $4, $5)
			RETURNING global_position, event_id::text, timestamp`, stream, version, e.Type, data, metadata).Scan(&e.Position, &e.ID, &e.Timestamp)
		if err != nil {
			return nil, err
		}
	}
	if _, err := tx.Exec(ctx, "UPDATE streams SET version = $1, updated_at = now() WHERE stream_id = $2", version, stream); err != nil {
		return nil, err
	}
	return out, tx.Commit(ctx)
}

// load returns all events of a stream.
func (p *perEvent) load(ctx context.Context, stream string) ([]storedEvent, error) {
	rows, err := p.pool.Query(ctx, `SELECT event_id::text, stream_id, event_type, data, metadata, version, global_position, timestamp
		FROM events WHERE stream_id = $1 AND version > $2 ORDER BY version`, stream, 0)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []storedEvent
	for rows.Next() {
		var e storedEvent
		var metadata []byte
		if err := rows.Scan(&e.ID, &e.StreamID, &e.Type, &e.Data, &metadata, &e.Version, &e.Position, &e.Timestamp); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(metadata, &e.Metadata); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

// event61 is an event of 61 bytes, order46 one of about 46.
var event61 = []byte(`{"orderId":"order-000001","customerId":"cust-42","total":990}`)

func order46(n int) []byte {
	return fmt.Appendf(nil, `{"orderId":"order-%06d","seq":%d,"total":100}`, n, n)
}

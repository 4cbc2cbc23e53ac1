package engines

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// PostgreSQL is the kind of address, as in --address postgres=URL.
const PostgreSQL = "postgres"

func postgres(name string, d suite.Durability, asked mainstem.Durability) Engine {
	return Engine{
		Name: "mainstem-postgres-" + name, Durability: d, Transport: suite.LoopbackTCP, Address: PostgreSQL, Server: true,
		Note: "a schema of its own in the database at the address given", Skip: suite.NeedAddress(PostgreSQL),
		Open: func(ctx context.Context, env *suite.Env, _ string) (mainstem.Log, error) {
			url, err := env.Address(PostgreSQL)
			if err != nil {
				return nil, err
			}
			schema := NewSchema()
			log, err := pglog.Open(ctx, url, &pglog.Options{Schema: schema, Durability: asked})
			if err != nil {
				return nil, err
			}
			return &served{log, func() error { return DropSchema(context.WithoutCancel(ctx), url, schema) }}, nil
		},
	}
}

// SchemaPrefix is how all names of [NewSchema] begin, so that what a killed run left
// on a server can be found.
const SchemaPrefix = "bench_"

var schemas atomic.Int64

// NewSchema returns the name of a schema that nobody else uses.
func NewSchema() string {
	return fmt.Sprintf("%s%x_%d", SchemaPrefix, time.Now().UnixNano(), schemas.Add(1))
}

// dropPatience bounds how long a schema may take to be dropped when an entry ends.
const dropPatience = time.Minute

// DropSchema removes a schema with all that is in it.
func DropSchema(ctx context.Context, url, schema string) error {
	ctx, cancel := context.WithTimeout(ctx, dropPatience)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	return errors.Join(err, conn.Close(ctx))
}

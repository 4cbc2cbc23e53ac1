package pglog

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstemdev/mainstem"
)

//go:embed sql/*.sql
var files embed.FS

// migrations make format n of the schema from format n-1, each in one transaction.
// Tables that were released never change: a new format is a new entry. Functions and views
// replace those of their name: the newest format that changed a file runs it, and earlier
// ones leave it out, because it may need tables that they do not have.
var migrations = [][]string{
	{"tables.sql"},
	{},                                     // puts to one key have a function of their own
	{},                                     // the largest MaxAge is no overflow
	{"clock.sql", "tick.sql", "views.sql"}, // records keep what the clock showed
	{"tick.sql"},                           // a server's clock that was set back is believed at once
	// A client that expects an earlier time sets no clock back; tombstones of what was written
	// after a jump do not wait for its end; a clock may be set back twice behind one record.
	{"present.sql", "restore.sql"},
	// Positions of records that were removed are remembered.
	{"written.sql", "append.sql", "sweep.sql"},
	{"apply.sql"},  // values go to their keys in whatever order the server joins its tables
	{"commit.sql"}, // the receipts of batches with IDs are written by a statement that is planned once
}

// Classes of advisory locks; the second number of a lock is of the schema's name.
const (
	lockMigrate = 0x6d73_0000 + iota
	lockOrder   // held by who has the end of the order
	lockListen  // shared by those who listen for new records
	lockPresent // shared by every connection of those who have the log open
)

// settings make PostgreSQL plan the statements of the engine the way they are meant:
// by index, whatever the statistics say about tables that were empty a moment ago. The
// server still chooses the order of joins, and with it that of rows.
var settings = [][2]string{
	{"enable_seqscan", "off"}, {"enable_hashjoin", "off"}, {"enable_mergejoin", "off"},
	{"plan_cache_mode", "force_generic_plan"}, {"jit", "off"}, {"max_parallel_workers_per_gather", "0"},
}

// dialect fills in what depends on the schema.
type dialect struct {
	schema  string
	channel string
	id      int32 // of the schema's name, in advisory locks
	names   *strings.Replacer
}

func newDialect(schema string) dialect {
	h := fnv.New32a()
	_, _ = h.Write([]byte(schema)) // never fails
	d := dialect{schema: schema, channel: "mainstem_" + schema, id: int32(h.Sum32())}
	var set []string
	for _, s := range settings {
		set = append(set, "SET "+s[0]+" = "+s[1])
	}
	d.names = strings.NewReplacer(
		"{schema}", pgx.Identifier{d.schema}.Sanitize(), "{channel}", d.channel,
		"{order}", d.lock(lockOrder), "{listen}", d.lock(lockListen),
		"{settings}", strings.Join(set, " "), "{name_max}", strconv.Itoa(nameMax),
	)
	return d
}

func (d dialect) lock(class int) string { return fmt.Sprintf("%d, %d", class, d.id) }

// sql returns text with the names of this log in it.
func (d dialect) sql(text string) string { return d.names.Replace(text) }

// Versions of PostgreSQL as server_version_num says them.
const oldestServer = 14_00_00

// prepare looks at the server and makes the tables, or brings them to the newest format.
func (l *Log) prepare(ctx context.Context, c *pgx.Conn) error {
	if err := l.checkServer(ctx, c); err != nil {
		return err
	}
	format, err := l.format(ctx, c)
	if err != nil || format == len(migrations) {
		return err
	}
	if format == 0 && l.opts.MustExist {
		return mainstem.Errorf(mainstem.KindNotFound, "open", "the schema %s holds no log", l.opts.Schema)
	}
	return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return l.migrate(ctx, tx) })
}

func (l *Log) checkServer(ctx context.Context, c *pgx.Conn) error {
	var version int
	var encoding, fsync string
	err := c.QueryRow(ctx, "SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'), current_setting('fsync')").
		Scan(&version, &encoding, &fsync)
	if err != nil {
		return err
	}
	if version < oldestServer {
		return mainstem.Errorf(mainstem.KindUnsupported, "open", "the server is PostgreSQL %d.%d: want 14 or newer", version/10000, version%10000)
	}
	if encoding != "UTF8" {
		return mainstem.Errorf(mainstem.KindUnsupported, "open", "the database has the encoding %s: want UTF8", encoding).
			WithHint("create the database with ENCODING 'UTF8' TEMPLATE template0")
	}
	if fsync == "off" {
		l.opts.Logger.Warn("the PostgreSQL server runs with fsync=off: nothing survives a power cut, whatever durability is asked for")
	}
	return nil
}

// format returns the format of the schema, 0 if there is none.
func (l *Log) format(ctx context.Context, c interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (int, error) {
	// Not to_regclass: it may answer from a cache that is older than a lock just taken.
	const exists = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'migration'"
	var tables int
	if err := c.QueryRow(ctx, exists, l.dialect.schema).Scan(&tables); err != nil || tables == 0 {
		return 0, err
	}
	var format int
	if err := c.QueryRow(ctx, l.dialect.sql("SELECT coalesce(max(version), 0) FROM {schema}.migration")).Scan(&format); err != nil {
		return 0, err
	}
	if format > len(migrations) {
		return 0, mainstem.Errorf(mainstem.KindInvalid, "open", "the schema %s has format %d: this version knows up to %d", l.opts.Schema, format, len(migrations)).
			WithHint("use a newer Mainstem")
	}
	return format, nil
}

func (l *Log) migrate(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock("+l.dialect.lock(lockMigrate)+")"); err != nil {
		return err
	}
	from, err := l.format(ctx, tx) // another process may have been quicker
	if err != nil {
		return err
	}
	if from == 0 {
		if err := l.createSchema(ctx, tx); err != nil {
			return err
		}
	}
	for n := from; n < len(migrations); n++ {
		for _, name := range migrations[n] {
			text, err := files.ReadFile("sql/" + name)
			if err != nil {
				return err
			}
			if _, err := tx.Conn().PgConn().Exec(ctx, l.dialect.sql(string(text))).ReadAll(); err != nil {
				return fmt.Errorf("format %d, %s: %w", n+1, name, err)
			}
		}
		if _, err := tx.Exec(ctx, l.dialect.sql("INSERT INTO {schema}.migration (version) VALUES ($1)"), n+1); err != nil {
			return err
		}
	}
	return nil
}

// createSchema makes the schema if it is not there: a user without that right can be
// given an empty one.
func (l *Log) createSchema(ctx context.Context, tx pgx.Tx) error {
	var schemas int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM pg_namespace WHERE nspname = $1", l.dialect.schema).Scan(&schemas); err != nil {
		return err
	}
	if schemas == 0 {
		if _, err := tx.Exec(ctx, l.dialect.sql("CREATE SCHEMA {schema}")); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, l.dialect.sql("CREATE TABLE {schema}.migration (version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"))
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "42P07" {
		return mainstem.Errorf(mainstem.KindInvalid, "open", "the schema %s has tables of another program", l.opts.Schema)
	}
	return err
}

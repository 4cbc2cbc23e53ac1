package pglog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstemdev/mainstem"
)

// Check implements [mainstem.Checker]. It reads every row, with the values that stand
// apart, and compares what refers to each other: records with their keys, both with the
// totals of their space, versions and positions with each other. It works in a
// transaction of its own while commits go on. It does not check the indexes of
// PostgreSQL; the extension amcheck does.
func (l *Log) Check(ctx context.Context, report func(mainstem.Problem)) (mainstem.CheckStats, error) {
	h, err := l.hold(ctx, "check")
	if err != nil {
		return mainstem.CheckStats{}, err
	}
	defer h.release()
	ctx, end, err := l.begin(ctx, "check")
	if err != nil {
		return mainstem.CheckStats{}, err
	}
	defer end()
	c := check{l: l, tx: h.mu.tx, report: report}
	err = c.run(ctx)
	return c.stats, l.mapError(ctx, "check", err)
}

// check is one walk.
type check struct {
	l      *Log
	tx     pgx.Tx
	report func(mainstem.Problem)
	stats  mainstem.CheckStats
}

func (c *check) run(ctx context.Context) error {
	// Here whole tables are read: PostgreSQL may plan as it likes.
	const free = "SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on; SET LOCAL plan_cache_mode = auto"
	if _, err := c.tx.Conn().PgConn().Exec(ctx, free).ReadAll(); err != nil {
		return err
	}
	for _, walk := range []func(context.Context) error{c.totals, c.keys, c.records, c.headers, c.orphans} {
		err := walk(ctx)
		var server *pgconn.PgError
		if errors.As(err, &server) && server.Code[:2] == "XX" {
			c.report(mainstem.Problem{Where: "tables of schema " + c.l.opts.Schema, What: server.Message})
			return nil // the transaction has ended
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls f for every row of a statement.
func (c *check) each(ctx context.Context, sql string, to []any, f func()) error {
	rows, err := c.tx.Query(ctx, c.l.dialect.sql(sql))
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, to, func() error { f(); return nil })
	return err
}

func (c *check) totals(ctx context.Context) error {
	var space string
	var keys, records, bytes, last, foundKeys, foundRecords, foundBytes, foundLast int64
	return c.each(ctx, `
		SELECT s.name, t.keys, t.records, t.bytes, t.last, coalesce(k.n, 0), coalesce(r.n, 0), coalesce(r.size, 0)::bigint, coalesce(r.last, 0)
		FROM {schema}.space s JOIN {schema}.total t ON t.space = s.id
		LEFT JOIN (SELECT space, count(*) AS n FROM {schema}.key WHERE held > 0 GROUP BY space) k ON k.space = s.id
		LEFT JOIN (SELECT space, count(*) AS n, sum(size) AS size, max(position) AS last FROM {schema}.record GROUP BY space) r ON r.space = s.id`,
		[]any{&space, &keys, &records, &bytes, &last, &foundKeys, &foundRecords, &foundBytes, &foundLast}, func() {
			c.stats.Spaces++
			c.stats.Keys += foundKeys
			c.stats.Records += foundRecords
			c.stats.Bytes += foundBytes
			if keys != foundKeys || records != foundRecords || bytes != foundBytes {
				c.report(mainstem.Problem{Where: "space " + space, What: fmt.Sprintf("totals say %d keys, %d records, %d bytes; found %d, %d, %d",
					keys, records, bytes, foundKeys, foundRecords, foundBytes)})
			}
			if last < foundLast {
				c.report(mainstem.Problem{Where: "space " + space, What: fmt.Sprintf("totals end at position %d; a record has %d", last, foundLast)})
			}
		})
}

func (c *check) keys(ctx context.Context) error {
	var space, what string
	var first, rest []byte
	return c.each(ctx, `
		SELECT s.name, k.name, k.rest, p.what
		FROM {schema}.key k JOIN {schema}.space s ON s.id = k.space CROSS JOIN {schema}.log l
		LEFT JOIN (SELECT key, count(*) AS n, max(version) AS newest FROM {schema}.record GROUP BY key) r ON r.key = k.id
		CROSS JOIN LATERAL (VALUES
			(k.held <> coalesce(r.n, 0), 'says that ' || k.held || ' records are held; found ' || coalesce(r.n, 0)),
			((k.position IS NOT NULL) <> (coalesce(r.newest, 0) = k.version), 'says wrongly whether its newest record is held'),
			(r.newest > k.version, 'is at version ' || k.version || '; a record has ' || r.newest),
			(k.mark <> CASE WHEN octet_length(k.rest) = 0 THEN ''::bytea ELSE sha256(k.rest) END OR octet_length(k.rest) > 0 AND octet_length(k.name) <> {name_max},
				'is not split as keys are'),
			(k.id > l.position, 'has the number ' || k.id || '; the log ends at ' || l.position)
		) AS p(bad, what) WHERE p.bad`,
		[]any{&space, &first, &rest, &what}, func() {
			c.report(mainstem.Problem{Where: fmt.Sprintf("space %s, key %.64q", space, append(first, rest...)), What: what})
		})
}

func (c *check) records(ctx context.Context) error {
	var space, what string
	var first, rest []byte
	var version int64
	return c.each(ctx, `
		SELECT s.name, k.name, k.rest, r.version, p.what
		FROM (
			SELECT h.key, h.version, h.count, h.position, h.time, h.expires, h.space, h.size, h.tomb,
				octet_length(h.headers) - 2 - 6 * (get_byte(h.headers, 0) * 256 + get_byte(h.headers, 1)) AS headers,
				octet_length(h.value || ''::bytea) AS value, -- reads values that stand apart
				lag(h.version) OVER same AS before, lag(h.position) OVER same AS earlier
			FROM {schema}.record h WINDOW same AS (PARTITION BY h.key ORDER BY h.version)
		) r JOIN {schema}.space s ON s.id = r.space JOIN {schema}.key k ON k.id = r.key CROSS JOIN {schema}.log l
		CROSS JOIN LATERAL (VALUES
			(k.space <> r.space, 'is of another space than its key'),
			(r.count < 1 OR r.version - r.count < coalesce(r.before, 0), 'carries ' || r.count || ' items; the record before it ends at version ' || coalesce(r.before, 0)),
			(r.position <= r.earlier, 'has position ' || r.position || ' after ' || r.earlier),
			(r.position > l.position OR r.time > l.clock, 'has position ' || r.position || ' of ' || r.time || '; the log ends at ' || l.position || ' of ' || l.clock),
			(r.tomb NOT BETWEEN 0 AND 3 OR r.tomb > 0 AND r.value IS NOT NULL, 'is no sound tombstone'),
			(r.version = k.version AND (r.position, r.time, r.expires, r.tomb) IS DISTINCT FROM (k.position, k.time, k.expires, k.tomb), 'is not what its key says about it'),
			(r.size <> octet_length(k.name) + octet_length(k.rest) + coalesce(r.headers, 0) + coalesce(r.value, 0), 'is said to have ' || r.size || ' bytes')
		) AS p(bad, what) WHERE p.bad`,
		[]any{&space, &first, &rest, &version, &what}, func() {
			c.report(mainstem.Problem{Where: fmt.Sprintf("space %s, key %.64q, version %d", space, append(first, rest...), version), What: what})
		})
}

func (c *check) headers(ctx context.Context) error {
	var space string
	var first, headers []byte
	var version int64
	return c.each(ctx, `
		SELECT s.name, k.name, r.version, r.headers FROM {schema}.record r
		JOIN {schema}.space s ON s.id = r.space JOIN {schema}.key k ON k.id = r.key WHERE r.headers IS NOT NULL`,
		[]any{&space, &first, &version, &headers}, func() {
			if _, err := decodeHeaders(headers); err != nil {
				c.report(mainstem.Problem{Where: fmt.Sprintf("space %s, key %.64q, version %d", space, first, version), What: err.Error()})
			}
		})
}

// orphans finds rows that belong to nothing.
func (c *check) orphans(ctx context.Context) error {
	var what string
	var n int64
	return c.each(ctx, `
		SELECT o.what, o.n FROM (
			SELECT 'records without a key', count(*) FROM {schema}.record r
			WHERE NOT EXISTS (SELECT FROM {schema}.key k WHERE k.id = r.key) AND NOT EXISTS (SELECT FROM {schema}.gone g WHERE g.space = r.space)
			UNION ALL
			SELECT 'keys without a space', count(*) FROM {schema}.key k
			WHERE NOT EXISTS (SELECT FROM {schema}.space s WHERE s.id = k.space) AND NOT EXISTS (SELECT FROM {schema}.gone g WHERE g.space = k.space)
			UNION ALL
			SELECT 'records without a space', count(*) FROM {schema}.record r
			WHERE NOT EXISTS (SELECT FROM {schema}.space s WHERE s.id = r.space) AND NOT EXISTS (SELECT FROM {schema}.gone g WHERE g.space = r.space)
		) AS o(what, n) WHERE o.n > 0`,
		[]any{&what, &n}, func() {
			c.report(mainstem.Problem{Where: "tables of schema " + c.l.opts.Schema, What: fmt.Sprintf("%d %s", n, what)})
		})
}

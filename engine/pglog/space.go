package pglog

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
)

// exclusive runs f in a transaction that has the end of the order, so that no commit
// comes in between. f gets the time of the log.
func (l *Log) exclusive(ctx context.Context, op string, f func(ctx context.Context, tx pgx.Tx, now int64) error) error {
	ctx, end, err := l.begin(ctx, op)
	if err == nil {
		defer end()
		err = l.tryExclusive(ctx, f)
		for n := 0; n < l.opts.Retries && err != nil && fateOf(err) == again && ctx.Err() == nil; n++ {
			err = l.tryExclusive(ctx, f)
		}
	}
	outcome := mainstem.NotWritten
	var doubt *unsure
	if errors.As(err, &doubt) {
		outcome, err = mainstem.Unknown, doubt.cause
	}
	err = l.mapError(ctx, op, err)
	var own *mainstem.Error
	if errors.As(err, &own) {
		own.Outcome = outcome
	}
	return err
}

// unsure is an error of a transaction that may have been committed.
type unsure struct{ cause error }

func (u *unsure) Error() string { return u.cause.Error() }
func (u *unsure) Unwrap() error { return u.cause }

func (l *Log) tryExclusive(ctx context.Context, f func(ctx context.Context, tx pgx.Tx, now int64) error) error {
	tx, err := l.reads.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() {
		_ = tx.Rollback(l.life) // does nothing after a commit; a connection that is broken is dropped
	}()
	var now int64
	if err := tx.QueryRow(ctx, l.dialect.sql("SELECT o_time FROM {schema}.enter($1, NULL)"), poolSource{l}.moment()).Scan(&now); err != nil {
		return err
	}
	if err := f(ctx, tx, now); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		if fateOf(err) == lost {
			return &unsure{err}
		}
		return err
	}
	return nil
}

// CreateSpace implements [mainstem.SpaceManager].
func (l *Log) CreateSpace(ctx context.Context, name string, p mainstem.Policy) error {
	if err := mainstem.ValidateSpaceName(name); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return err
	}
	text, err := encodeEnsures([]mainstem.Ensure{{Space: name, Policy: p}})
	if err != nil {
		return err
	}
	return l.exclusive(ctx, "create space", func(ctx context.Context, tx pgx.Tx, now int64) error {
		var made int
		err := tx.QueryRow(ctx, l.dialect.sql("SELECT {schema}.ensure($1, $2)"), string(text), now).Scan(&made)
		if err == nil && made == 0 {
			return &mainstem.Error{Kind: mainstem.KindExists, Op: "create space", Space: name}
		}
		return err
	})
}

// AlterSpace implements [mainstem.SpaceManager]. Lowering a bounded History drops the
// records beyond it at once: it takes time in proportion to the space.
func (l *Log) AlterSpace(ctx context.Context, name string, p mainstem.Policy) error {
	metadata, err := json.Marshal(p.Metadata)
	if err != nil {
		return err
	}
	return l.exclusive(ctx, "alter space", func(ctx context.Context, tx pgx.Tx, _ int64) error {
		in, err := l.findSpace(ctx, tx, "alter space", name)
		if err != nil {
			return err
		}
		if err := in.Policy.CanAlter(p); err != nil {
			return err
		}
		var id int32
		err = tx.QueryRow(ctx, l.dialect.sql(`UPDATE {schema}.space SET history = $2, max_age = $3, max_bytes = $4, tombstone_age = $5, metadata = $6
			WHERE name = $1 RETURNING id`), name, p.History, int64(p.MaxAge), p.MaxBytes, int64(p.TombstoneAge), string(metadata)).Scan(&id)
		if err == nil && p.History < in.Policy.History {
			_, err = tx.Exec(ctx, l.dialect.sql(trimSpace), id, p.History)
		}
		return err
	})
}

// trimSpace keeps the newest $2 records of every key of the space $1.
const trimSpace = `
	WITH gone AS (
		DELETE FROM {schema}.record r USING (
			SELECT n.key, n.version FROM (
				SELECT o.key, o.version, row_number() OVER (PARTITION BY o.key ORDER BY o.version DESC) AS age
				FROM {schema}.record o WHERE o.space = $1
			) n WHERE n.age > $2
		) n WHERE r.key = n.key AND r.version = n.version RETURNING r.key, r.size
	), fewer AS (
		UPDATE {schema}.key k SET held = k.held - c.n FROM (SELECT key, count(*) AS n FROM gone GROUP BY key) c WHERE k.id = c.key
	)
	UPDATE {schema}.total t SET records = t.records - c.n, bytes = t.bytes - c.size
	FROM (SELECT count(*) AS n, coalesce(sum(size), 0) AS size FROM gone) c WHERE t.space = $1`

// DropSpace implements [mainstem.SpaceManager]. Readers find nothing of the space from
// then on; the sweeper removes its rows.
func (l *Log) DropSpace(ctx context.Context, name string) error {
	err := l.exclusive(ctx, "drop space", func(ctx context.Context, tx pgx.Tx, _ int64) error {
		in, err := l.findSpace(ctx, tx, "drop space", name)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, l.dialect.sql(`SELECT {schema}.announce(0, ARRAY[id]) FROM {schema}.space WHERE name = $1`), name)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, l.dialect.sql(`
			WITH d AS (DELETE FROM {schema}.space WHERE name = $1 RETURNING id),
				t AS (DELETE FROM {schema}.total USING d WHERE space = d.id)
			INSERT INTO {schema}.gone SELECT id FROM d`), in.Name)
		return err
	})
	if err == nil {
		l.known.forget(name)
		l.hub.announce(0, []string{name})
		l.sweeper.poke()
	}
	return err
}

// findSpace describes one space.
func (l *Log) findSpace(ctx context.Context, on interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, op, name string) (mainstem.SpaceInfo, error) {
	if err := mainstem.ValidateSpaceName(name); err != nil {
		return mainstem.SpaceInfo{}, err
	}
	rows, err := on.Query(ctx, l.sql.spaces+" WHERE s.name = $1", name)
	if err != nil {
		return mainstem.SpaceInfo{}, err
	}
	list, err := pgx.CollectRows(rows, scanSpace)
	if err == nil && len(list) == 0 {
		err = &mainstem.Error{Kind: mainstem.KindNotFound, Op: op, Space: name}
	}
	if err != nil {
		return mainstem.SpaceInfo{}, err
	}
	return list[0], nil
}

func scanSpace(row pgx.CollectableRow) (in mainstem.SpaceInfo, err error) {
	var created, maxAge, tombstoneAge, last, updated int64
	var metadata *string
	p := &in.Policy
	err = row.Scan(&in.Name, &created, &p.History, &maxAge, &p.MaxBytes, &tombstoneAge, &p.NoFeed, &metadata, &in.Keys, &in.Records, &in.Bytes, &last, &updated)
	if err != nil {
		return in, err
	}
	p.MaxAge, p.TombstoneAge = time.Duration(maxAge), time.Duration(tombstoneAge)
	in.Created, in.Updated, in.Last = unixTime(created), unixTime(updated), mainstem.Position(last)
	if metadata != nil {
		err = json.Unmarshal([]byte(*metadata), &p.Metadata)
	}
	return in, err
}

// Space implements [mainstem.SpaceManager].
func (l *Log) Space(ctx context.Context, name string) (mainstem.SpaceInfo, error) {
	ctx, end, err := l.begin(ctx, "space")
	if err != nil {
		return mainstem.SpaceInfo{}, err
	}
	defer end()
	in, err := l.findSpace(ctx, l.reads, "space", name)
	return in, l.mapError(ctx, "space", err)
}

// spacesPage is how many spaces are listed at once.
const spacesPage = 500

// Spaces implements [mainstem.SpaceManager]. Its pages are of different moments.
func (l *Log) Spaces(ctx context.Context, prefix string) iter.Seq2[mainstem.SpaceInfo, error] {
	return func(yield func(mainstem.SpaceInfo, error) bool) {
		after := ""
		for {
			list, err := l.listSpaces(ctx, prefix, after)
			if err != nil {
				yield(mainstem.SpaceInfo{}, err)
				return
			}
			for _, in := range list {
				if !yield(in, nil) {
					return
				}
			}
			if len(list) < spacesPage {
				return
			}
			after = list[len(list)-1].Name
		}
	}
}

func (l *Log) listSpaces(ctx context.Context, prefix, after string) ([]mainstem.SpaceInfo, error) {
	ctx, end, err := l.begin(ctx, "spaces")
	if err != nil {
		return nil, err
	}
	defer end()
	// A prefix need not be text: it may end within a character.
	rows, err := l.reads.Query(ctx, l.sql.spaces+" WHERE s.name > $1 AND substr(convert_to(s.name, 'UTF8'), 1, $2) = $3 ORDER BY s.name LIMIT $4",
		after, len(prefix), []byte(prefix), spacesPage)
	if err != nil {
		return nil, l.mapError(ctx, "spaces", err)
	}
	list, err := pgx.CollectRows(rows, scanSpace)
	return list, l.mapError(ctx, "spaces", err)
}

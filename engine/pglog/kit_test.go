package pglog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

// patience is how long tests wait for what must happen soon.
const patience = testkit.Patience

// openAt opens a log that is checked and closed when the test ends.
func openAt(t *testing.T, url string, o *pglog.Options) *pglog.Log {
	t.Helper()
	log := openLog(t, url, o)
	t.Cleanup(func() {
		_, err := log.Check(context.WithoutCancel(t.Context()), func(p mainstem.Problem) { t.Errorf("check: %s: %s", p.Where, p.What) })
		if err != nil && !errors.Is(err, mainstem.ErrClosed) {
			t.Errorf("check: %v", err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

// openNew opens a log in a database of its own, and returns the URL of that too.
func openNew(t *testing.T, o *pglog.Options) (*pglog.Log, string) {
	t.Helper()
	url := testpostgres.FastDB(t)
	return openAt(t, url, o), url
}

// connect opens a connection that is closed when the test ends.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return c
}

func execute(t *testing.T, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// value runs a query for one value.
func value[T any](t *testing.T, c *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// batch makes a batch that puts value to a key of the space s, which it ensures.
func batch(key, value string) *mainstem.Batch {
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	b.Put("s", []byte(key), []byte(value))
	return b
}

func commit(t *testing.T, log mainstem.Log, b *mainstem.Batch) mainstem.Receipt {
	t.Helper()
	r, err := log.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// feed returns what the feed of the log holds, as "key@version=value".
func feed(t *testing.T, log mainstem.Reader, f mainstem.Filter) []string {
	t.Helper()
	var out []string
	for r, err := range log.Feed(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s@%d=%s", r.Key, r.Version, r.Value))
	}
	return out
}

// waiters selects the sessions of commits that wait for their place in the order.
const waiters = ` FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
	WHERE l.locktype = 'advisory' AND NOT l.granted AND a.datname = current_database() AND a.query ~ '\.(commit|append)\('`

func waiting(t *testing.T, c *pgx.Conn) int {
	t.Helper()
	return value[int](t, c, "SELECT count(*)"+waiters)
}

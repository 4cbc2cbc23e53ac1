package readmodelpg_test

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	readmodelpg "github.com/mainstemdev/mainstem/event/readmodel/pg"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

var discard = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) {
	if work := os.Getenv(workerVariable); work != "" {
		os.Exit(worker(work))
	}
	goleak.VerifyTestMain(testpostgres.Main(m))
}

// connect returns a pool that is closed when the test ends.
func connect(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// newDB returns a database of the test's own.
func newDB(t testing.TB) (*readmodelpg.DB, *pgxpool.Pool) {
	t.Helper()
	pool := connect(t, testpostgres.FastDB(t))
	return dbOf(t, pool, nil), pool
}

func dbOf(t testing.TB, pool *pgxpool.Pool, o *readmodelpg.Options) *readmodelpg.DB {
	t.Helper()
	db, err := readmodelpg.New(pool, o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func open[T any](t testing.TB, db *readmodelpg.DB, name string) *readmodelpg.Table[T] {
	t.Helper()
	table, err := readmodelpg.Open[T](t.Context(), db, name)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func execute(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(context.WithoutCancel(t.Context()), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func value[V any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (v V) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func ptr[T any](v T) *T { return &v }

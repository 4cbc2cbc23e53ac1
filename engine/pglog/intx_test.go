package pglog_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
)

func begin(t *testing.T, c *pgx.Conn, o pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := c.BeginTx(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestBatchAndTransactionAreOne(t *testing.T) {
	log, url := openNew(t, nil)
	c := connect(t, url)
	execute(t, c, "CREATE TABLE stock (item text PRIMARY KEY, n int); INSERT INTO stock VALUES ('book', 5)")
	for i, end := range []func(pgx.Tx) error{
		func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
	} {
		tx := begin(t, c, pgx.TxOptions{})
		if _, err := tx.Exec(t.Context(), "UPDATE stock SET n = n - 1"); err != nil {
			t.Fatal(err)
		}
		r, err := log.BatchInTx(t.Context(), tx, batch("sold", "book"))
		if err != nil || r.Versions[0] != 1 || r.First != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
		if n := value[int](t, c, "SELECT n FROM stock"); n != 5-i {
			t.Errorf("the stock is %d", n)
		}
		if got := feed(t, log, mainstem.Filter{}); len(got) != i {
			t.Errorf("the log holds %v", got)
		}
	}
}

// What the log refuses leaves the transaction as it was, also what the batch had done
// before the write that is impossible.
func TestRefusalInTransaction(t *testing.T) {
	log, url := openNew(t, nil)
	c := connect(t, url)
	commit(t, log, batch("k", "0"))
	tx := begin(t, c, pgx.TxOptions{})
	for kind, fill := range map[error]func(b *mainstem.Batch){
		mainstem.ErrConflict: func(b *mainstem.Batch) { b.IfVersion("s", []byte("k"), 9) },
		mainstem.ErrNotFound: func(b *mainstem.Batch) { b.Put("nowhere", []byte("k"), nil) },
		mainstem.ErrInvalid:  func(b *mainstem.Batch) { b.Truncate("s", []byte("k"), 100) },
	} {
		b := batch("new", "v")
		b.Ensure("other", mainstem.Policy{})
		fill(b)
		_, err := log.BatchInTx(t.Context(), tx, b)
		var own *mainstem.Error
		if !errors.Is(err, kind) || !errors.As(err, &own) || own.Outcome != mainstem.NotWritten {
			t.Errorf("got %v, want %v and not written", err, kind)
		}
	}
	again := batch("k", "1")
	again.ID = "once"
	for n := range 2 {
		r, err := log.BatchInTx(t.Context(), tx, again)
		if err != nil || r.Versions[0] != 2 || r.Duplicate != (n == 1) {
			t.Errorf("try %d: %+v, %v", n, r, err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := feed(t, log, mainstem.Filter{}); len(got) != 2 || got[1] != "k@2=1" {
		t.Errorf("the log holds %v", got)
	}
	if _, err := log.Space(t.Context(), "other"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("a refused batch created its space: %v", err)
	}
}

// A stricter transaction sees the log as it was when it began; it must not build on that.
func TestStaleTransactionIsRefused(t *testing.T) {
	log, url := openNew(t, nil)
	c := connect(t, url)
	commit(t, log, batch("k", "0"))
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for _, stale := range []bool{false, true} {
			tx := begin(t, c, pgx.TxOptions{IsoLevel: level})
			if _, err := tx.Exec(t.Context(), "SELECT 1 FROM mainstem.log"); err != nil {
				t.Fatal(err)
			}
			if stale {
				commit(t, log, batch("k", "meanwhile"))
			}
			_, err := log.BatchInTx(t.Context(), tx, batch("k", "mine"))
			if stale != errors.Is(err, mainstem.ErrUnavailable) || !stale && err != nil {
				t.Errorf("%s, stale %v: %v", level, stale, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	tx := begin(t, c, pgx.TxOptions{})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := log.BatchInTx(t.Context(), tx, batch("k", "late")); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a transaction that has ended: %v, want Invalid", err)
	}
}

// A transaction of another database would commit to another log, or to none.
func TestSameDatabase(t *testing.T) {
	log, url := openNew(t, nil)
	_, other := openNew(t, nil)
	for _, u := range []string{url, other} {
		tx := begin(t, connect(t, u), pgx.TxOptions{})
		if same, err := log.SameDatabase(t.Context(), tx); same != (u == url) || err != nil {
			t.Errorf("%s and %s are the same: %v, %v", u, url, same, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, connect(t, url), pgx.TxOptions{})
	if _, err := log.SameDatabase(t.Context(), tx); !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("a closed log: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

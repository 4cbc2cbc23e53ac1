package readmodelpg_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/projection"
	readmodelpg "github.com/mainstemdev/mainstem/event/readmodel/pg"
)

type account struct {
	ID    string `sql:",pk"`
	Email string
}

type uniqueAccount struct {
	ID    string `sql:",pk"`
	Email string `sql:",unique"`
}

// A value of a unique index moves from one entry to another within one commit, whatever their keys.
func TestUniqueValueMovesBetweenEntries(t *testing.T) {
	onEach(t, func(t *testing.T, log mainstem.Log, pool *pgxpool.Pool) {
		l := newLedger(t, log, pool)
		execute(t, pool, `CREATE TABLE indexed (id text PRIMARY KEY, email text NOT NULL UNIQUE)`)
		t.Run("declared", func(t *testing.T) {
			moveUnique(t, l, open[uniqueAccount](t, l.db, "accounts"), func(id, email string) uniqueAccount { return uniqueAccount{id, email} })
		})
		t.Run("of the table", func(t *testing.T) {
			moveUnique(t, l, open[account](t, l.db, "indexed"), func(id, email string) account { return account{id, email} })
		})
	})
}

func moveUnique[T comparable](t *testing.T, l *ledger, table *readmodelpg.Table[T], of func(id, email string) T) {
	to := func(v T) func(T, bool) (T, error) { return func(T, bool) (T, error) { return v, nil } }
	moves := map[string]func(ctx context.Context, tx *projection.Tx, from, key string) error{
		"deleted": func(_ context.Context, tx *projection.Tx, from, key string) error {
			readmodelpg.Delete(tx, table, from)
			readmodelpg.Put(tx, table, of(key, "x"))
			return nil
		},
		"deleted after": func(ctx context.Context, tx *projection.Tx, from, key string) error {
			err := readmodelpg.Modify(ctx, tx, table, key, to(of(key, "x")))
			readmodelpg.Delete(tx, table, from)
			return err
		},
		"changed": func(ctx context.Context, tx *projection.Tx, from, key string) error {
			if _, err := readmodelpg.Get(ctx, tx, table, key); !errors.Is(err, mainstem.ErrNotFound) {
				return err
			}
			return errors.Join(readmodelpg.Modify(ctx, tx, table, from, to(of(from, "y"))), readmodelpg.Modify(ctx, tx, table, key, to(of(key, "x"))))
		},
	}
	for name, move := range moves {
		for _, keys := range [][2]string{{"a", "z"}, {"z", "a"}} {
			from, key := keys[0], keys[1]
			if err := errors.Join(table.Clear(t.Context()), table.Insert(t.Context(), of(from, "x"))); err != nil {
				t.Fatal(err)
			}
			l.run(t, t.Name()+name+key, func(ctx context.Context, tx *projection.Tx, _ int) error { return move(ctx, tx, from, key) })
			if got, err := table.Get(t.Context(), key); err != nil || got != of(key, "x") {
				t.Errorf("%s, from %s to %s: %+v, %v", name, from, key, got, err)
			}
		}
	}
}

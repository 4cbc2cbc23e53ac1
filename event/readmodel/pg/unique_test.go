package readmodelpg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	readmodelpg "github.com/mainstemdev/mainstem/event/readmodel/pg"
	"github.com/mainstemdev/mainstem/internal/testengines"
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

// Entries without a value of a unique column are not the same, and Modify keeps the fields that it
// does not set.
func TestUniqueColumnWithoutValues(t *testing.T) {
	type order struct {
		ID    string `sql:",pk"`
		Total int64
		Ref   *string `sql:"reference,type=varchar(40),unique"`
		Paid  *time.Time
	}
	db, pool := newDB(t)
	l, orders := newLedger(t, testengines.Memory(t), pool), open[order](t, db, "shop.orders")
	paid := time.Unix(1, 0).UTC()
	if err := orders.Insert(t.Context(), order{ID: "order-1", Total: 1, Paid: &paid}); err != nil {
		t.Fatal(err)
	}
	l.run(t, "orders", func(ctx context.Context, tx *projection.Tx, _ int) error {
		for _, id := range []string{"order-1", "order-2"} {
			if err := readmodelpg.Modify(ctx, tx, orders, id, func(o order, _ bool) (order, error) {
				o.ID, o.Total = id, o.Total+5
				return o, nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	got, err := orders.Find(t.Context(), readmodel.All())
	if d := cmp.Diff([]order{{ID: "order-1", Total: 6, Paid: &paid}, {ID: "order-2", Total: 5}}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}

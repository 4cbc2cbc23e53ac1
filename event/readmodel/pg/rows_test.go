package readmodelpg_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	readmodelpg "github.com/mainstemdev/mainstem/event/readmodel/pg"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

type numbered struct {
	ID   int `sql:",pk"`
	Name string
}

type identified struct {
	ID   string `sql:",pk,type=uuid"`
	Name string
}

// Modify takes a key in every form that Get takes. The entry must keep the key, in any form.
func TestModifyByAnotherFormOfTheKey(t *testing.T) {
	const id = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
	db, pool := newDB(t)
	l := newLedger(t, testengines.Memory(t), pool)
	numbers, ids := open[numbered](t, db, "numbers"), open[identified](t, db, "ids")
	l.run(t, "forms", func(ctx context.Context, tx *projection.Tx, _ int) error {
		number := func(key string, to int) error {
			return readmodelpg.Modify(ctx, tx, numbers, key, func(old numbered, _ bool) (numbered, error) { return numbered{to, old.Name + "x"}, nil })
		}
		identify := func(key, to string) error {
			return readmodelpg.Modify(ctx, tx, ids, key, func(old identified, _ bool) (identified, error) { return identified{to, old.Name + "x"}, nil })
		}
		for _, err := range []error{number("007", 7), number("7", 7), identify(strings.ToUpper(id), id), identify(id, strings.ToUpper(id))} {
			if err != nil {
				t.Error(err)
			}
		}
		for _, err := range []error{number("007", 8), number("x", 0), identify(id, strings.Replace(id, "f", "e", 1))} {
			if !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%v, want Invalid", err)
			}
		}
		return nil
	})
	if v, err := numbers.Get(t.Context(), "7"); err != nil || v.Name != "xx" {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := ids.Get(t.Context(), id); err != nil || v.Name != "xx" {
		t.Errorf("%+v, %v", v, err)
	}
}

// An entry whose uuid was NULL can be written back.
func TestModifyAnEntryWithANullUUID(t *testing.T) {
	type entry struct {
		ID   string `sql:",pk"`
		Ref  string `sql:",nullable,unique,type=uuid"`
		Note string `sql:",nullable"`
	}
	db, pool := newDB(t)
	l, table := newLedger(t, testengines.Memory(t), pool), open[entry](t, db, "entries")
	execute(t, pool, "INSERT INTO entries (id) VALUES ('a'), ('b')")
	l.run(t, "nulls", func(ctx context.Context, tx *projection.Tx, _ int) error {
		return readmodelpg.Modify(ctx, tx, table, "a", func(old entry, _ bool) (entry, error) { return old, nil })
	})
	if got := value[string](t, pool, "SELECT concat_ws(' ', ref IS NULL, note IS NULL) FROM entries WHERE id = 'a'"); got != "t f" {
		t.Errorf("ref and note are null: %s", got)
	}
	if got, err := table.FindOne(t.Context(), readmodel.Where("Ref", readmodel.IsNull)); err != nil || got != (entry{ID: "a"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := open[identified](t, db, "ids").Insert(t.Context(), identified{}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a column that is not nullable: %v, want Invalid", err)
	}
}

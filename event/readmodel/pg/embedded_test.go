package readmodelpg_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

type (
	Secrets struct {
		Password string
		Deeper
	}
	Deeper struct{ Pin int }
	Meta   struct{ Source, Trace string }
	origin struct{ Region string }
	hidden struct{ Cache string }
)

// The fields of an embedded struct that is left out, or is one column, are no columns.
func TestEmbeddedStructs(t *testing.T) {
	type entry struct {
		ID       string `sql:",pk"`
		*Secrets `sql:"-"`
		Meta     `sql:"meta,type=jsonb"`
		hidden   `sql:"-"`
		origin
	}
	db, pool := newDB(t)
	table, ctx := open[entry](t, db, "entries"), t.Context()
	v := entry{ID: "a", Secrets: &Secrets{Password: "x"}, Meta: Meta{"s", "t"}, hidden: hidden{"c"}, origin: origin{"eu"}}
	if err := table.Insert(ctx, v); err != nil {
		t.Fatal(err)
	}
	const columns = "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'entries'::regclass AND attnum > 0"
	if got := value[string](t, pool, columns); got != "id meta region" {
		t.Errorf("the columns are %q", got)
	}
	v.Secrets, v.hidden = nil, hidden{}
	got, err := table.FindOne(ctx, readmodel.Where("Region", readmodel.Eq, "eu"))
	if d := cmp.Diff(v, got, cmp.AllowUnexported(entry{}, hidden{}, origin{})); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for _, field := range []string{"Source", "Cache"} {
		if _, err := table.Find(ctx, readmodel.Where(field, readmodel.Eq, "s")); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", field, err)
		}
	}
}

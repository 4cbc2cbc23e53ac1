package kv_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

func TestTablesAndDatabases(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		for _, name := range []string{"default/b", "default/a", "default-x/a", "default2/a", "other/a", "z.z/a"} {
			put(t, open[user](t, log, name, nil), "k", user{})
		}
		for _, foreign := range []string{"event/default", "kv/default/x/y", "kv/x", "kv2/default/a", "kv/d b/t"} {
			check(t, log.CreateSpace(ctx, foreign, mainstem.Policy{}))
		}
		names := func(database string) (out []string) {
			for _, table := range collect(t, kv.Tables(ctx, log, database)) {
				if table.Codec != "json" || table.Space.Name != "kv/"+table.Database+"/"+table.Name {
					t.Errorf("table %+v", table)
				}
				out = append(out, table.Database+"/"+table.Name)
			}
			return out
		}
		if got := names("default"); !slices.Equal(got, []string{"default/a", "default/b"}) {
			t.Errorf("tables of default: %q", got)
		}
		if got := names(""); len(got) != 6 {
			t.Errorf("all tables: %q", got)
		}
		if got := names("def"); len(got) != 0 {
			t.Errorf("tables of def: %q", got)
		}
		got := must[[]string](t)(kv.Databases(ctx, log))
		if want := []string{"default", "default-x", "default2", "other", "z.z"}; !slices.Equal(got, want) {
			t.Errorf("databases %q, want %q", got, want)
		}
		for range kv.Tables(ctx, log, "") {
			break
		}
		for _, err := range kv.Tables(ctx, log, "a/b") {
			wantErr(t, err, mainstem.ErrInvalid)
		}
	})
}

func TestDropIsExact(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		tables := []string{"default/a", "default/a2", "default/b", "default2/a", "default-x/a", "Default/a"}
		for _, name := range tables {
			put(t, open[int](t, log, name, nil), "k", 1)
		}
		foreign := []string{"kv/default", "kv/default/x/y", "kv/default2"}
		for _, name := range foreign {
			check(t, log.CreateSpace(ctx, name, mainstem.Policy{}))
		}
		left := func(want ...string) {
			t.Helper()
			for i := range want {
				want[i] = "kv/" + want[i]
			}
			want = append(want, foreign...)
			slices.Sort(want)
			if got := spaces(t, log); !slices.Equal(got, want) {
				t.Fatalf("spaces left %q, want %q", got, want)
			}
		}
		check(t, kv.DropTable(ctx, log, "default", "a"))
		left("default/a2", "default/b", "default2/a", "default-x/a", "Default/a")
		wantErr(t, kv.DropTable(ctx, log, "default", "a"), mainstem.ErrNotFound)
		wantErr(t, kv.DropTable(ctx, log, "default", "x/y"), mainstem.ErrInvalid)
		wantErr(t, kv.DropTable(ctx, log, "", "a"), mainstem.ErrInvalid)

		check(t, kv.DropDatabase(ctx, log, "default"))
		left("default2/a", "default-x/a", "Default/a")
		wantErr(t, kv.DropDatabase(ctx, log, "default"), mainstem.ErrNotFound)
		wantErr(t, kv.DropDatabase(ctx, log, ""), mainstem.ErrInvalid)
		wantErr(t, kv.DropDatabase(ctx, log, "default2/a"), mainstem.ErrInvalid)

		b := open[int](t, log, "default2/a", nil)
		check(t, b.Drop(ctx))
		if _, err := b.Get(ctx, "k"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Fatalf("Get after Drop: %v", err)
		}
		put(t, b, "new", 1)
		if got := collect(t, b.Keys(ctx, nil)); !slices.Equal(got, []string{"new"}) {
			t.Fatalf("the table made anew holds %q", got)
		}
	})
}

func TestAlter(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		policy := func(b *kv.Bucket[string]) mainstem.Policy {
			t.Helper()
			return must[mainstem.SpaceInfo](t)(log.Space(ctx, b.Space())).Policy
		}
		b := open[string](t, log, "t", nil)
		put(t, b, "k", "v")
		if p := policy(b); p.History != 1 || p.MaxAge != 0 || p.MaxBytes != 0 || p.NoFeed {
			t.Fatalf("default policy %+v", p)
		}
		b = open[string](t, log, "t", &kv.Options{History: 5, MaxAge: time.Hour, MaxBytes: 1 << 20, TombstoneAge: time.Minute})
		put(t, b, "k", "w") // writing alone changes no policy
		if p := policy(b); p.History != 1 {
			t.Fatalf("a write changed the policy to %+v", p)
		}
		check(t, b.Alter(ctx))
		if p := policy(b); p.History != 5 || p.MaxAge != time.Hour || p.MaxBytes != 1<<20 || p.TombstoneAge != time.Minute {
			t.Fatalf("altered policy %+v", p)
		}
		wantErr(t, open[string](t, log, "t", &kv.Options{NoFeed: true}).Alter(ctx), mainstem.ErrInvalid)
		wantErr(t, open[string](t, log, "t", &kv.Options{History: kv.HistoryAll}).Alter(ctx), mainstem.ErrInvalid)

		fresh := open[string](t, log, "fresh", &kv.Options{History: 3})
		check(t, fresh.Alter(ctx))
		if p := policy(fresh); p.History != 3 {
			t.Fatalf("created with policy %+v", p)
		}
	})
}

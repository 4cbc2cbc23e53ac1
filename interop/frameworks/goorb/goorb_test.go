package goorb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-orb/go-orb/kvstore"
	"github.com/go-orb/go-orb/util/orberrors"

	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/interop/frameworks"
)

var tables = []string{"", "users", "a_b"}

// each runs a test with every combination of the settings, every table, and with a
// table in the configuration.
func each(t *testing.T, f func(t *testing.T, s settings, theirs, ours watchingStore, table string)) {
	eachLayout(t, func(t *testing.T, s settings) {
		srv := testnats.NewServer(t, nil)
		s.URL = srv.URL()
		for i, configured := range []string{"", "conf"} {
			for j, table := range tables {
				s.Database, s.Table = fmt.Sprintf("db%d%d", i, j), configured
				t.Run(fmt.Sprintf("configured=%s,table=%s", configured, table), func(t *testing.T) {
					f(t, s, openTheirs(t, s), openOurs(t, s), table)
				})
			}
		}
	})
}

func TestWhichPlugin(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	s := settings{URL: srv.URL(), BucketPerTable: true}
	s.Database = "default"
	t.Logf("the part of natsjs is played by %T", openTheirs(t, s))
	ours := openOurs(t, s)
	if ours.Type() != kvstore.ComponentType || ours.String() != kvstore.DefaultKVStore {
		t.Errorf("the adapter is a %s called %s", ours.Type(), ours)
	}
	noError(t, ours.Stop(t.Context()))
	if err := ours.Set(t.Context(), "k", "", "", nil); err == nil {
		t.Error("a store that was stopped takes a value")
	}
}

func sameRecord(t *testing.T, who string, got []kvstore.Record, key string, value []byte) {
	t.Helper()
	if len(got) != 1 || got[0].Key != key || string(got[0].Value) != string(value) || got[0].Expiry != nil {
		t.Errorf("%s reads %.200q; want %q = %.60q", who, fmt.Sprint(got), key, value)
	}
}

func TestReadsWhatTheOtherWrites(t *testing.T) {
	each(t, func(t *testing.T, s settings, theirs, ours watchingStore, table string) {
		ctx := t.Context()
		for i, key := range frameworks.Keys(s.KeyEncoding != "") {
			value := frameworks.Value(i)
			noError(t, theirs.Set(ctx, key, "", table, value))
			got, err := ours.Get(ctx, key, "", table)
			noError(t, err)
			sameRecord(t, "the adapter", got, key, value)
			if got[0].Value == nil {
				t.Errorf("the value of %q is nil, and was not when it was written", key)
			}
			again := append([]byte("again "), value...)
			noError(t, ours.Set(ctx, key, "", table, again))
			got, err = theirs.Get(ctx, key, "", table)
			noError(t, err)
			sameRecord(t, "the plug-in", got, key, again)
		}
		old(t, theirs, ours, table)
	})
}

// old uses the methods for old programs, of the adapter only where a peer has none.
func old(t *testing.T, theirs, ours watchingStore, table string) {
	t.Helper()
	ctx := t.Context()
	noError(t, ours.Write(&kvstore.Record{Key: "old", Value: []byte("1")}, kvstore.WriteTo("", table)))
	got, err := theirs.Get(ctx, "old", "", table)
	noError(t, err)
	sameRecord(t, "the plug-in", got, "old", []byte("1"))
	noError(t, theirs.Set(ctx, "old", "", table, []byte("2")))
	read, err := ours.Read("old", kvstore.ReadFrom("", table))
	noError(t, err)
	sameRecord(t, "the adapter", []kvstore.Record{*read[0]}, "old", []byte("2"))
	list, err := ours.List(kvstore.ListFrom("", table), kvstore.ListPrefix("ol"))
	noError(t, err)
	if !slices.Equal(list, []string{"old"}) {
		t.Errorf("the list is %q", list)
	}
	noError(t, ours.Delete("old", kvstore.DeleteFrom("", table)))
	if _, err := theirs.Get(ctx, "old", "", table); !errors.Is(err, kvstore.ErrNotFound) {
		t.Errorf("the plug-in reads what the adapter deleted: %v", err)
	}
}

// What both write is the same, byte for byte, headers included, also where keys
// were purged.
func TestStoresTheSameBytes(t *testing.T) {
	eachLayout(t, func(t *testing.T, s settings) {
		var both [2]map[string]string
		for i, open := range []func(testing.TB, settings) watchingStore{openTheirs, openOurs} {
			s.URL = testnats.NewServer(t, nil).URL()
			store := open(t, s)
			both[i] = make(map[string]string)
			for _, table := range tables {
				for j, key := range frameworks.Keys(s.KeyEncoding != "") {
					noError(t, store.Set(t.Context(), key, "", table, frameworks.Value(j)))
				}
				noError(t, store.Set(t.Context(), "nil", "", table, nil))
				noError(t, store.Purge(t.Context(), "a", "", table))
				noError(t, store.Purge(t.Context(), "never", "", table))
				bucket := s.Database
				if s.BucketPerTable && table != "" {
					bucket += "_" + table
				}
				for subject, message := range frameworks.Stored(t, s.URL, bucket) {
					both[i][subject] = message
				}
			}
		}
		frameworks.SameStored(t, both[0], both[1])
	})
}

func TestKeys(t *testing.T) {
	each(t, func(t *testing.T, _ settings, theirs, ours watchingStore, table string) {
		ctx := t.Context()
		for i := range 20 {
			store := theirs
			if i%2 == 0 {
				store = ours
			}
			noError(t, store.Set(ctx, fmt.Sprintf("k%02d-%d", i, i%3), "", table, []byte{byte(i)}))
		}
		noError(t, theirs.Purge(ctx, "k01-1", "", table))
		noError(t, ours.Purge(ctx, "k02-2", "", table))
		for name, opts := range map[string][]kvstore.KeysOption{
			"all":    nil,
			"prefix": {kvstore.KeysPrefix("k1")},
			"suffix": {kvstore.KeysSuffix("-1")},
			"both":   {kvstore.KeysPrefix("k1"), kvstore.KeysSuffix("-2")},
			"none":   {kvstore.KeysPrefix("x")},
		} {
			want, err := theirs.Keys(ctx, "", table, opts...)
			noError(t, err)
			var got []string
			eventually(t, fmt.Sprintf("%s: the adapter's keys are those of the plug-in, %q", name, want), func() bool {
				got, err = ours.Keys(ctx, "", table, opts...)
				noError(t, err)
				return slices.Equal(got, frameworks.Sorted(want))
			})
		}
		all, err := ours.Keys(ctx, "", table)
		noError(t, err)
		for offset := range uint(len(all) + 2) {
			got, err := ours.Keys(ctx, "", table, kvstore.KeysOffset(offset), kvstore.KeysLimit(3))
			noError(t, err)
			if want := all[min(int(offset), len(all)):min(int(offset)+3, len(all))]; !slices.Equal(got, want) {
				t.Errorf("three keys from %d: %q; want %q", offset, got, want)
			}
		}
		records, err := ours.Get(ctx, "k1", "", table, kvstore.GetPrefix(), kvstore.GetOffset(1), kvstore.GetLimit(2))
		noError(t, err)
		if len(records) != 2 || records[0].Key != "k11-2" || records[1].Key != "k12-0" || records[1].Value[0] != 12 {
			t.Errorf("records %v", records)
		}
	})
}

// Tables with buckets of their own do not see each other's keys; without, all tables
// are one.
func TestTables(t *testing.T) {
	eachLayout(t, func(t *testing.T, s settings) {
		s.URL = testnats.NewServer(t, nil).URL()
		theirs, ours := openTheirs(t, s), openOurs(t, s)
		for i, store := range []watchingStore{theirs, ours} {
			noError(t, store.Set(t.Context(), "k", "", "one", []byte(fmt.Sprint("one", i))))
			for _, other := range []watchingStore{theirs, ours} {
				got, err := other.Get(t.Context(), "k", "", "two")
				switch {
				case s.BucketPerTable && !errors.Is(err, kvstore.ErrNotFound):
					t.Errorf("another table has the key: %v, %v", got, err)
				case !s.BucketPerTable:
					noError(t, err)
					sameRecord(t, "another table", got, "k", []byte(fmt.Sprint("one", i)))
				}
			}
		}
	})
}

func TestPurges(t *testing.T) {
	each(t, func(t *testing.T, _ settings, theirs, ours watchingStore, table string) {
		ctx := t.Context()
		for _, by := range [][2]watchingStore{{theirs, ours}, {ours, theirs}} {
			noError(t, ours.Set(ctx, "gone", "", table, []byte("x")))
			noError(t, by[0].Purge(ctx, "gone", "", table))
			for _, key := range []string{"gone", "never"} {
				_, err := by[1].Get(ctx, key, "", table)
				if !errors.Is(err, kvstore.ErrNotFound) || !errors.Is(err, orberrors.ErrNotFound) || orberrors.From(err).Code != 404 {
					t.Errorf("the key %s is read: %v", key, err)
				}
			}
			noError(t, by[1].Set(ctx, "gone", "", table, []byte("back")))
			got, err := by[0].Get(ctx, "gone", "", table)
			noError(t, err)
			sameRecord(t, "who purged it", got, "gone", []byte("back"))
		}
	})
}

func TestDrops(t *testing.T) {
	eachLayout(t, func(t *testing.T, s settings) {
		ctx := t.Context()
		s.URL = testnats.NewServer(t, nil).URL()
		theirs, ours := openTheirs(t, s), openOurs(t, s)
		has := func(store watchingStore, database, table string) bool {
			_, err := store.Get(ctx, "k", database, table)
			if err != nil && !errors.Is(err, kvstore.ErrNotFound) {
				t.Errorf("%s/%s: %v", database, table, err)
			}
			return err == nil
		}
		noError(t, theirs.Set(ctx, "k", "old", "t", nil))
		noError(t, ours.Set(ctx, "k", "new", "t", nil))
		noError(t, ours.Set(ctx, "k", "new", "u", nil))
		noError(t, ours.Set(ctx, "k", "new2", "t", nil))
		if !s.BucketPerTable {
			if ours.DropTable(ctx, "new", "t") == nil || theirs.DropTable(ctx, "new", "t") == nil {
				t.Error("one table of a bucket where all are one was dropped")
			}
		} else {
			noError(t, ours.DropTable(ctx, "old", "t"))
			noError(t, theirs.DropTable(ctx, "new", "t"))
			if has(ours, "old", "t") || has(ours, "new", "t") || !has(ours, "new", "u") {
				t.Error("a table that was dropped is there, or another is gone")
			}
			if ours.DropTable(ctx, "new", "never") == nil || theirs.DropTable(ctx, "new", "never") == nil {
				t.Error("a table that never was, was dropped")
			}
		}
		noError(t, ours.DropDatabase(ctx, "new"))
		noError(t, ours.DropDatabase(ctx, "never"))
		if has(ours, "new", "u") || !has(ours, "new2", "t") {
			t.Error("the database that was dropped is there, or one whose name begins alike is gone")
		}
		noError(t, theirs.DropDatabase(ctx, "new2"))
		if has(ours, "new2", "t") {
			t.Error("the adapter reads of a database that the plug-in has dropped")
		}
		noError(t, ours.Set(ctx, "k", "new2", "t", []byte("again")))
		if !has(theirs, "new2", "t") {
			t.Error("the plug-in does not read of a database that was made again")
		}
	})
}

// A time to live, which the plug-in cannot give, holds for the plug-in too.
func TestExpiry(t *testing.T) {
	eachLayout(t, func(t *testing.T, s settings) {
		t.Parallel()
		ctx := t.Context()
		s.URL = testnats.NewServer(t, nil).URL()
		theirs, ours := openTheirs(t, s), openOurs(t, s)
		noError(t, theirs.Set(ctx, "stays", "", "t", []byte("1"))) // the bucket is the plug-in's: it must be altered
		noError(t, ours.Set(ctx, "goes-too", "", "t", []byte("1"), kvstore.SetExpiry(time.Now().Add(time.Second))))
		noError(t, ours.Set(ctx, "gone", "", "t", []byte("1"), kvstore.SetExpiry(time.Now().Add(-time.Second))))
		keys := frameworks.WhileItLives(t, time.Second, func(key string) {
			noError(t, ours.Set(ctx, key, "", "t", []byte("1"), kvstore.SetTTL(time.Second)))
		}, func(key string) bool {
			got, err := theirs.Get(ctx, key, "", "t")
			if errors.Is(err, kvstore.ErrNotFound) {
				return false
			}
			noError(t, err)
			sameRecord(t, "the plug-in", got, key, []byte("1"))
			got, err = ours.Get(ctx, key, "", "t")
			if errors.Is(err, kvstore.ErrNotFound) {
				return false
			}
			noError(t, err)
			if e := got[0].Expiry; e == nil || time.Until(*e) > time.Second {
				t.Errorf("the adapter reads %v", got)
			}
			return true
		})
		for _, key := range append(keys, "gone", "goes-too") {
			for _, store := range []watchingStore{theirs, ours} {
				eventually(t, key+" expires", func() bool {
					_, err := store.Get(ctx, key, "", "t")
					return errors.Is(err, kvstore.ErrNotFound)
				})
			}
		}
		for _, store := range []watchingStore{theirs, ours} {
			keys, err := store.Keys(ctx, "", "t")
			noError(t, err)
			if !slices.Equal(keys, []string{"stays"}) {
				t.Errorf("the keys are %q", keys)
			}
		}
	})
}

// event is one of a watch, as text.
func event(t *testing.T, ctx context.Context, ch <-chan kvstore.WatchEvent) string {
	t.Helper()
	select {
	case e, ok := <-ch:
		if !ok {
			t.Fatal("the watch has ended")
		}
		return fmt.Sprintf("%d %s=%s", e.Operation, e.Key, e.Value)
	case <-ctx.Done():
		t.Fatal("the watch does not tell")
	}
	return ""
}

func TestWatch(t *testing.T) {
	each(t, func(t *testing.T, _ settings, theirs, ours watchingStore, table string) {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		defer cancel()
		for i, by := range [][2]watchingStore{{theirs, ours}, {ours, theirs}} {
			before := fmt.Sprint("before", i)
			noError(t, by[0].Set(ctx, before, "", table, []byte("0")))
			ch, stop, err := by[1].Watch(ctx, "", table)
			noError(t, err)
			seen := map[string]bool{}
			for range 1 + 2*i { // what is there already, and what is left of what was there
				seen[event(t, ctx, ch)[2:]] = true
			}
			if !seen[before+"=0"] {
				t.Errorf("the watch begins with %v", seen)
			}
			key := fmt.Sprint("k", i)
			noError(t, by[0].Set(ctx, key, "", table, []byte("1")))
			if got := event(t, ctx, ch); got[2:] != key+"=1" || got[0] == '2' {
				t.Errorf("the watch tells %q", got)
			}
			noError(t, by[0].Set(ctx, key, "", table, []byte("2")))
			if got := event(t, ctx, ch); got != fmt.Sprintf("1 %s=2", key) {
				t.Errorf("the watch tells %q", got)
			}
			noError(t, by[0].Purge(ctx, key, "", table))
			if got := event(t, ctx, ch); got != fmt.Sprintf("2 %s=", key) {
				t.Errorf("the watch tells %q", got)
			}
			noError(t, by[0].Purge(ctx, before, "", table))
			if got := event(t, ctx, ch); got != fmt.Sprintf("2 %s=", before) {
				t.Errorf("the watch tells %q", got)
			}
			noError(t, stop())
		}
	})
}

// In the layout Shared, tables of the adapter are prefixes of the plug-in's keys.
func TestShared(t *testing.T) {
	for _, encoding := range []string{"base32", ""} {
		ctx := t.Context()
		s := settings{URL: testnats.NewServer(t, nil).URL(), JSONKeyValues: true, KeyEncoding: encoding}
		s.Database = "default"
		theirs := openTheirs(t, s)
		s.Shared = true
		ours := openOurs(t, s)
		noError(t, ours.Set(ctx, "ada", "", "users", []byte("1")))
		got, err := theirs.Get(ctx, "users_ada", "", "")
		noError(t, err)
		if len(got) != 1 || string(got[0].Value) != "1" {
			t.Errorf("the plug-in reads %v", got)
		}
		noError(t, theirs.Set(ctx, "users_bob", "", "ignored", []byte("2")))
		got, err = ours.Get(ctx, "bob", "", "users")
		noError(t, err)
		if len(got) != 1 || string(got[0].Value) != "2" {
			t.Errorf("the adapter reads %v", got)
		}
		eventually(t, "the adapter lists both", func() bool {
			keys, err := ours.Keys(ctx, "", "users")
			noError(t, err)
			return slices.Equal(keys, []string{"ada", "bob"})
		})
		noError(t, theirs.Purge(ctx, "users_ada", "", ""))
		if _, err := ours.Get(ctx, "ada", "", "users"); !errors.Is(err, kvstore.ErrNotFound) {
			t.Errorf("the adapter reads what the plug-in purged: %v", err)
		}
	}
}

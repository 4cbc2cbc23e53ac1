// Package gomicro4_test has the adapter to go-micro and go-micro's own plug-in work
// on the same buckets.
package gomicro4_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	natsjskv "github.com/go-micro/plugins/v4/store/nats-js-kv"
	"github.com/nats-io/nats.go"
	"go-micro.dev/v4/store"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/contrib/natskv/gomicro"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/interop/frameworks"
)

// adapter is our store with the types of go-micro 4.
type adapter = gomicro.Store[
	store.Record, store.Options, store.ReadOptions, store.WriteOptions, store.DeleteOptions, store.ListOptions,
	store.Option, store.ReadOption, store.WriteOption, store.DeleteOption, store.ListOption,
]

var _ store.Store = (*adapter)(nil)

var (
	noError    = frameworks.NoError
	eventually = testkit.Eventually
)

// openOurs opens the adapter as a process of its own would.
func openOurs(t testing.TB, url string, l natskv.Layout, c gomicro.Config) store.Store {
	t.Helper()
	c.NotFound = store.ErrNotFound
	a, err := gomicro.New[
		store.Record, store.Options, store.ReadOptions, store.WriteOptions, store.DeleteOptions, store.ListOptions,
		store.Option, store.ReadOption, store.WriteOption, store.DeleteOption, store.ListOption,
	](t.Context(), frameworks.OpenStore(t, url, l), &c)
	noError(t, err)
	return a
}

// openTheirs opens go-micro's plug-in.
func openTheirs(t testing.TB, url string, encoded bool, opts ...store.Option) store.Store {
	t.Helper()
	opts = append(opts, store.Nodes(url),
		natsjskv.NatsOptions(frameworks.NATSOptions()), natsjskv.JetStreamOptions(nats.MaxWait(testkit.Patience)))
	if encoded {
		opts = append(opts, natsjskv.EncodeKeys())
	}
	s := natsjskv.NewStore(opts...)
	noError(t, s.Init())
	t.Cleanup(func() { s.Close() })
	return s
}

var tables = []string{"", "users", "a_b"}

// each runs a test with each setting of the plug-in and each table; ours is one
// of the layouts that promise to be the plug-in's.
func each(t *testing.T, f func(t *testing.T, url string, encoded bool, theirs, ours store.Store, table string)) {
	for _, encoded := range []bool{false, true} {
		for _, l := range []natskv.Layout{natskv.GoMicro(encoded), natskv.Shared(encoded)} {
			t.Run(strings.ReplaceAll(l.String(), "/", "-"), func(t *testing.T) {
				srv := testnats.NewServer(t, nil)
				for i, table := range tables {
					t.Run("table="+table, func(t *testing.T) {
						database := fmt.Sprint("db", i)
						theirs := openTheirs(t, srv.URL(), encoded, store.Database(database), store.Table(table))
						ours := openOurs(t, srv.URL(), l, gomicro.Config{Database: database, Table: table})
						f(t, srv.URL(), encoded, theirs, ours, table)
					})
				}
			})
		}
	}
}

// records are one for each key, with and without metadata.
func records(encoded bool) []*store.Record {
	var all []*store.Record
	for i, key := range frameworks.Keys(encoded) {
		r := &store.Record{Key: key, Value: frameworks.Value(i)}
		switch i % 3 {
		case 1:
			r.Metadata = map[string]any{"text": "<ünï>", "number": 1.5, "flag": true, "deep": map[string]any{"list": []any{"x", nil}}}
		case 2:
			r.Metadata = map[string]any{}
		}
		all = append(all, r)
	}
	return all
}

// sameRecord compares a record with what was written of it. Metadata without anything in it
// may come back as none.
func sameRecord(t *testing.T, who string, got []*store.Record, want *store.Record) {
	t.Helper()
	if len(got) != 1 {
		t.Fatalf("%s reads %d records of %q", who, len(got), want.Key)
	}
	r := got[0]
	if r.Key != want.Key || string(r.Value) != string(want.Value) || r.Expiry != 0 {
		t.Errorf("%s reads %q = %.60q, expiry %v; want %q = %.60q", who, r.Key, r.Value, r.Expiry, want.Key, want.Value)
	}
	if len(r.Metadata)+len(want.Metadata) > 0 && fmt.Sprint(r.Metadata) != fmt.Sprint(want.Metadata) {
		t.Errorf("%s reads the metadata %v of %q; want %v", who, r.Metadata, r.Key, want.Metadata)
	}
}

func TestReadsWhatTheOtherWrites(t *testing.T) {
	each(t, func(t *testing.T, _ string, encoded bool, theirs, ours store.Store, _ string) {
		for _, r := range records(encoded) {
			noError(t, theirs.Write(r))
			got, err := ours.Read(r.Key)
			noError(t, err)
			sameRecord(t, "the adapter", got, r)

			again := &store.Record{Key: r.Key, Value: append([]byte("again "), r.Value...), Metadata: r.Metadata}
			noError(t, ours.Write(again))
			got, err = theirs.Read(r.Key)
			noError(t, err)
			sameRecord(t, "the plug-in", got, again)
		}
	})
}

// What both write is the same, byte for byte, headers included; and so is what is
// left of a bucket when they have deleted keys.
func TestStoresTheSameBytes(t *testing.T) {
	for _, encoded := range []bool{false, true} {
		t.Run(fmt.Sprint("encoded=", encoded), func(t *testing.T) {
			var both []map[string]string
			for _, adapter := range []bool{false, true} {
				srv := testnats.NewServer(t, nil)
				s := openTheirs(t, srv.URL(), encoded)
				if adapter {
					s = openOurs(t, srv.URL(), natskv.GoMicro(encoded), gomicro.Config{})
				}
				for _, table := range tables {
					for _, r := range records(encoded) {
						noError(t, s.Write(r, store.WriteTo("", table)))
					}
					noError(t, s.Delete("a", store.DeleteFrom("", table)))
					noError(t, s.Delete("never", store.DeleteFrom("", table)))
				}
				both = append(both, frameworks.Stored(t, srv.URL(), "default"))
			}
			frameworks.SameStored(t, both[0], both[1])
		})
	}
}

func TestLists(t *testing.T) {
	each(t, func(t *testing.T, _ string, encoded bool, theirs, ours store.Store, table string) {
		for i := range 30 {
			s := theirs
			if i%2 == 0 {
				s = ours
			}
			noError(t, s.Write(&store.Record{Key: fmt.Sprintf("k%02d-%d", i, i%3), Value: []byte{byte(i)}}))
			noError(t, s.Write(&store.Record{Key: fmt.Sprint("other", i)}, store.WriteTo("", "groups")))
		}
		noError(t, theirs.Delete("k01-1"))
		noError(t, ours.Delete("k02-2"))
		for name, opts := range map[string][]store.ListOption{
			"all":         nil,
			"prefix":      {store.ListPrefix("k1")},
			"suffix":      {store.ListSuffix("-1")},
			"both":        {store.ListPrefix("k2"), store.ListSuffix("-2")},
			"none":        {store.ListPrefix("x")},
			"other table": {store.ListFrom("", "groups")},
			"no table":    {store.ListFrom("", "nobody")},
		} {
			want, err := theirs.List(opts...)
			noError(t, err)
			eventuallyListed(t, name, ours, want, opts)
		}
		pages(t, theirs, ours)
		_ = table
	})
}

// eventuallyListed waits until the adapter lists what another process wrote.
func eventuallyListed(t *testing.T, name string, ours store.Store, want []string, opts []store.ListOption) {
	t.Helper()
	var got []string
	eventually(t, fmt.Sprintf("%s: the adapter lists %q; want %q", name, got, frameworks.Sorted(want)), func() bool {
		var err error
		got, err = ours.List(opts...)
		noError(t, err)
		return slices.Equal(got, frameworks.Sorted(want))
	})
}

// pages compares limits and offsets, which both apply to what matches; only the order
// of the plug-in is that of the writes.
func pages(t *testing.T, theirs, ours store.Store) {
	t.Helper()
	all, err := ours.List(store.ListPrefix("k"))
	noError(t, err)
	for offset := uint(0); offset < uint(len(all))+5; offset += 5 {
		want, err := theirs.List(store.ListPrefix("k"), store.ListOffset(offset), store.ListLimit(5))
		noError(t, err)
		got, err := ours.List(store.ListPrefix("k"), store.ListOffset(offset), store.ListLimit(5))
		noError(t, err)
		from, to := min(offset, uint(len(all))), min(offset+5, uint(len(all)))
		if len(got) != len(want) || !slices.Equal(got, all[from:to]) {
			t.Errorf("from %d: the adapter lists %q, the plug-in %q", offset, got, want)
		}
		read, err := ours.Read("k", store.ReadPrefix(), store.ReadOffset(offset), store.ReadLimit(5))
		noError(t, err)
		theirRead, err := theirs.Read("k", store.ReadPrefix(), store.ReadOffset(offset), store.ReadLimit(5))
		noError(t, err)
		if len(read) != len(theirRead) {
			t.Errorf("from %d: the adapter reads %d records, the plug-in %d", offset, len(read), len(theirRead))
		}
		for i, r := range read {
			if r.Key != got[i] {
				t.Errorf("from %d: record %d is %q, and %q in the list", offset, i, r.Key, got[i])
			}
		}
	}
}

func TestReadsPrefixesAndSuffixes(t *testing.T) {
	each(t, func(t *testing.T, _ string, encoded bool, theirs, ours store.Store, _ string) {
		for i := range 20 {
			noError(t, theirs.Write(&store.Record{Key: fmt.Sprintf("x%d-x%d", i%4, i), Value: []byte(fmt.Sprint(i)), Metadata: map[string]any{"i": float64(i)}}))
		}
		for name, opts := range map[string][]store.ReadOption{
			"prefix": {store.ReadPrefix()}, "suffix": {store.ReadSuffix()}, "both": {store.ReadPrefix(), store.ReadSuffix()},
		} {
			for _, key := range []string{"x1", "x", "nothing"} {
				want, err := theirs.Read(key, opts...)
				noError(t, err)
				var got []*store.Record
				eventually(t, fmt.Sprintf("%s %s: the adapter reads what the plug-in reads", name, key), func() bool {
					got, err = ours.Read(key, opts...)
					noError(t, err)
					return len(got) == len(want)
				})
				if a, b := texts(got), texts(want); !maps.Equal(a, b) {
					t.Errorf("%s %s: the adapter reads %v, the plug-in %v", name, key, a, b)
				}
			}
		}
	})
}

func texts(records []*store.Record) map[string]string {
	all := make(map[string]string)
	for _, r := range records {
		all[r.Key] = fmt.Sprintf("%s %v", r.Value, r.Metadata)
	}
	return all
}

func TestDeletes(t *testing.T) {
	each(t, func(t *testing.T, _ string, _ bool, theirs, ours store.Store, _ string) {
		for _, by := range [][2]store.Store{{theirs, ours}, {ours, theirs}} {
			noError(t, ours.Write(&store.Record{Key: "gone", Value: []byte("x")}))
			noError(t, by[0].Delete("gone"))
			if _, err := by[1].Read("gone"); err != store.ErrNotFound { // services compare
				t.Errorf("the other reads a deleted key: %v", err)
			}
			if _, err := by[0].Read("never"); err != store.ErrNotFound {
				t.Errorf("a key that never was: %v", err)
			}
			noError(t, by[1].Delete("never"))
			noError(t, by[1].Write(&store.Record{Key: "gone", Value: []byte("back")}))
			got, err := by[0].Read("gone")
			noError(t, err)
			sameRecord(t, "who deleted it", got, &store.Record{Key: "gone", Value: []byte("back")})
		}
	})
}

// The option DeleteBucket deletes a bucket, no matter which program made it.
func TestDeletesBuckets(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	theirs := openTheirs(t, srv.URL(), false)
	ours := openOurs(t, srv.URL(), natskv.GoMicro(false), gomicro.Config{})
	noError(t, theirs.Write(&store.Record{Key: "k"}, store.WriteTo("one", "t")))
	noError(t, ours.Write(&store.Record{Key: "k"}, store.WriteTo("two", "t")))
	noError(t, ours.Write(&store.Record{Key: "k"}, store.WriteTo("two_more", "t")))
	noError(t, ours.Delete("two", natsjskv.DeleteBucket()))
	if _, err := ours.Read("k", store.ReadFrom("two", "t")); err != store.ErrNotFound {
		t.Errorf("a deleted bucket: %v", err)
	}
	if _, err := ours.Read("k", store.ReadFrom("two_more", "t")); err != nil {
		t.Errorf("a bucket whose name begins alike: %v", err)
	}
	noError(t, ours.Delete("one", natsjskv.DeleteBucket()))
	if _, err := ours.Read("k", store.ReadFrom("one", "t")); err != store.ErrNotFound {
		t.Errorf("a deleted bucket of the plug-in: %v", err)
	}
	noError(t, theirs.Delete("two_more", natsjskv.DeleteBucket()))
	if _, err := ours.Read("k", store.ReadFrom("two_more", "t")); err != store.ErrNotFound {
		t.Errorf("a bucket that the plug-in deleted: %v", err)
	}
	noError(t, ours.Write(&store.Record{Key: "k", Value: []byte("new")}, store.WriteTo("two_more", "t")))
	noError(t, theirs.Write(&store.Record{Key: "l"}, store.WriteTo("two_more", "t"))) // opens it
	got, err := theirs.Read("k", store.ReadFrom("two_more", "t"))
	noError(t, err)
	sameRecord(t, "the plug-in", got, &store.Record{Key: "k", Value: []byte("new")})
}

// A record's time to live, which the plug-in cannot give, holds for the plug-in too;
// and that of a bucket for the adapter.
func TestExpiry(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	theirs := openTheirs(t, srv.URL(), true, natsjskv.DefaultTTL(2*time.Second))
	ours := openOurs(t, srv.URL(), natskv.GoMicro(true), gomicro.Config{})
	noError(t, ours.Write(&store.Record{Key: "stays", Value: []byte("1")}, store.WriteTo("own", "")))
	keys := frameworks.WhileItLives(t, time.Second, func(key string) {
		noError(t, ours.Write(&store.Record{Key: key, Value: []byte("1"), Expiry: time.Second}, store.WriteTo("own", "")))
		noError(t, theirs.Write(&store.Record{Key: "opens"}, store.WriteTo("own", "")))
	}, func(key string) bool {
		got, err := theirs.Read(key, store.ReadFrom("own", ""))
		if err == store.ErrNotFound {
			return false
		}
		noError(t, err)
		sameRecord(t, "the plug-in", got, &store.Record{Key: key, Value: []byte("1")})
		got, err = ours.Read(key, store.ReadFrom("own", ""))
		if err == store.ErrNotFound {
			return false
		}
		noError(t, err)
		if len(got) != 1 || got[0].Expiry <= 0 || got[0].Expiry > time.Second {
			t.Errorf("the adapter reads %+v", got[0])
		}
		return true
	})
	noError(t, theirs.Write(&store.Record{Key: "brief", Value: []byte("1")})) // in a bucket with DefaultTTL
	noError(t, ours.Write(&store.Record{Key: "brief too", Value: []byte("1")}))
	for _, s := range []store.Store{theirs, ours} {
		expires := func(database, key string) {
			t.Helper()
			eventually(t, key+" expires", func() bool {
				_, err := s.Read(key, store.ReadFrom(database, ""))
				return err == store.ErrNotFound
			})
		}
		for _, key := range keys {
			expires("own", key)
		}
		expires("", "brief")
		expires("", "brief too")
		if _, err := s.Read("stays", store.ReadFrom("own", "")); err != nil {
			t.Errorf("what was written without an end: %v", err)
		}
		list, err := s.List(store.ListFrom("own", ""))
		noError(t, err)
		if !slices.Equal(frameworks.Sorted(list), []string{"opens", "stays"}) {
			t.Errorf("the list is %q", list)
		}
	}
}

// The watch of the plug-in, which later releases of it have, reports what the adapter
// does.
func TestWatch(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	theirs := openTheirs(t, srv.URL(), true)
	ours := openOurs(t, srv.URL(), natskv.GoMicro(true), gomicro.Config{})
	watcher, ok := theirs.(interface {
		WatchAll(bucket string, opts ...nats.WatchOpt) (<-chan *natsjskv.StoreUpdate, func() error, error)
	})
	if !ok {
		t.Fatal("the plug-in does not watch")
	}
	updates, stop, err := watcher.WatchAll("default")
	noError(t, err)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	reports := func(want string) {
		t.Helper()
		select {
		case u := <-updates:
			if got := fmt.Sprintf("%s %s=%s %v", u.Action, u.Value.Key, u.Value.Data, u.Value.Metadata); got != want {
				t.Errorf("the plug-in reports %q; want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("the plug-in does not report %q", want)
		}
	}
	noError(t, ours.Write(&store.Record{Key: "k", Value: []byte("1"), Metadata: map[string]any{"m": "x"}}))
	// The bucket keeps one message of a key, so a delete now would take the write from a watch that is behind.
	reports("create k=1 map[m:x]")
	noError(t, ours.Delete("k"))
	reports("delete k= map[]")
}

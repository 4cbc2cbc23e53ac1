package gomicro5_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go-micro.dev/v5/store"
	natsjskv "go-micro.dev/v5/store/nats-js-kv"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/interop/frameworks"
)

// openTheirs opens the plug-in that go-micro 5 has in its own module.
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

// withPlugin runs a test with each setting of the plug-in; ours is one of the layouts
// that promise to be the plug-in's. Both use the table "users" of the database "app".
func withPlugin(t *testing.T, f func(t *testing.T, encoded bool, theirs, ours store.Store)) {
	for _, encoded := range []bool{false, true} {
		for _, l := range []natskv.Layout{natskv.GoMicro(encoded), natskv.Shared(encoded)} {
			t.Run(strings.ReplaceAll(l.String(), "/", "-"), func(t *testing.T) {
				srv := testnats.NewServer(t, nil)
				theirs := openTheirs(t, srv.URL(), encoded, store.Database("app"), store.Table("users"))
				ours := open(t, srv.URL(), l)
				noError(t, ours.Init(store.Database("app"), store.Table("users")))
				f(t, encoded, theirs, ours)
			})
		}
	}
}

// records are one for each kind of key and value, with and without metadata.
func records(encoded bool) []*store.Record {
	var all []*store.Record
	for i, key := range frameworks.Keys(encoded) {
		r := &store.Record{Key: key, Value: frameworks.Value(i)}
		if i%2 == 1 {
			r.Metadata = map[string]any{"text": "<ünï>", "number": 1.5, "deep": map[string]any{"list": []any{"x", nil}}}
		}
		all = append(all, r)
	}
	return all
}

// same compares what was read with the one record that was written.
func same(t *testing.T, who string, s store.Store, want *store.Record) {
	t.Helper()
	got, err := s.Read(want.Key)
	noError(t, err)
	if len(got) != 1 {
		t.Fatalf("%s reads %d records of %q", who, len(got), want.Key)
	}
	if g, w := fmt.Sprintf("%q %v", got[0].Value, got[0].Metadata), fmt.Sprintf("%q %v", want.Value, want.Metadata); g != w {
		t.Errorf("%s reads %q: %.200s; want %.200s", who, want.Key, g, w)
	}
}

func TestReadsWhatThePluginWrites(t *testing.T) {
	withPlugin(t, func(t *testing.T, encoded bool, theirs, ours store.Store) {
		for _, r := range records(encoded) {
			noError(t, theirs.Write(r))
			same(t, "the adapter", ours, r)
			r.Value = append([]byte("again "), r.Value...)
			noError(t, ours.Write(r))
			same(t, "the plug-in", theirs, r)
		}
	})
}

func TestListsAsThePlugin(t *testing.T) {
	withPlugin(t, func(t *testing.T, _ bool, theirs, ours store.Store) {
		both := []store.Store{theirs, ours}
		for i := range 30 {
			noError(t, both[i%2].Write(&store.Record{Key: fmt.Sprintf("k%02d-%d", i, i%3), Value: []byte{byte(i)}}))
		}
		noError(t, theirs.Write(&store.Record{Key: "elsewhere"}, store.WriteTo("app", "groups")))
		noError(t, theirs.Delete("k02-2"))
		noError(t, ours.Delete("k01-1"))
		for name, opts := range map[string][]store.ListOption{
			"all":         nil,
			"prefix":      {store.ListPrefix("k1")},
			"suffix":      {store.ListSuffix("-1")},
			"both":        {store.ListPrefix("k2"), store.ListSuffix("-2")},
			"none":        {store.ListPrefix("x")},
			"other table": {store.ListFrom("app", "groups")},
		} {
			want, err := theirs.List(opts...)
			noError(t, err)
			eventually(t, name+": the adapter lists what the plug-in lists", func() bool {
				got, err := ours.List(opts...)
				noError(t, err)
				return slices.Equal(got, frameworks.Sorted(want))
			})
		}
		for name, opts := range map[string][]store.ReadOption{
			"prefix": {store.ReadPrefix()}, "suffix": {store.ReadSuffix()},
		} {
			want, err := theirs.Read("k1", opts...)
			noError(t, err)
			got, err := ours.Read("k1", opts...)
			noError(t, err)
			if fmt.Sprint(texts(got)) != fmt.Sprint(texts(want)) {
				t.Errorf("%s: the adapter reads %v, the plug-in %v", name, texts(got), texts(want))
			}
		}
	})
}

func TestDeletesAsThePlugin(t *testing.T) {
	withPlugin(t, func(t *testing.T, _ bool, theirs, ours store.Store) {
		for _, by := range [][2]store.Store{{theirs, ours}, {ours, theirs}} {
			noError(t, ours.Write(&store.Record{Key: "gone", Value: []byte("x")}))
			noError(t, by[0].Delete("gone"))
			if _, err := by[1].Read("gone"); err != store.ErrNotFound { // services compare
				t.Errorf("the other reads a deleted key: %v", err)
			}
			noError(t, by[1].Delete("never"))
		}
		noError(t, ours.Write(&store.Record{Key: "k"}))
		noError(t, ours.Delete("app", natsjskv.DeleteBucket()))
		if _, err := ours.Read("k"); err != store.ErrNotFound {
			t.Errorf("a deleted bucket: %v", err)
		}
	})
}

// What the adapter and the plug-in store is the same, byte for byte.
func TestStoresTheBytesOfThePlugin(t *testing.T) {
	for _, encoded := range []bool{false, true} {
		t.Run(fmt.Sprint("encoded=", encoded), func(t *testing.T) {
			stored := func(open func(url string) store.Store) map[string]string {
				srv := testnats.NewServer(t, nil)
				s := open(srv.URL())
				for _, r := range records(encoded) {
					for _, table := range []string{"", "users", "a_b"} {
						noError(t, s.Write(r, store.WriteTo("app", table)))
					}
				}
				noError(t, s.Delete("a", store.DeleteFrom("app", "users")))
				return frameworks.Stored(t, srv.URL(), "app")
			}
			theirs := stored(func(url string) store.Store { return openTheirs(t, url, encoded) })
			ours := stored(func(url string) store.Store { return open(t, url, natskv.GoMicro(encoded)) })
			frameworks.SameStored(t, theirs, ours)
		})
	}
}

// Buckets of the plug-in expire as a whole; the adapter does not read what has.
func TestExpiryOfThePlugin(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	theirs := openTheirs(t, srv.URL(), true, natsjskv.DefaultTTL(2*time.Second), store.Database("app"))
	ours := open(t, srv.URL(), natskv.GoMicro(true))
	noError(t, ours.Init(store.Database("app")))
	noError(t, theirs.Write(&store.Record{Key: "brief", Value: []byte("1")}))
	noError(t, ours.Write(&store.Record{Key: "brief too", Value: []byte("1")}))
	for _, key := range []string{"brief", "brief too"} {
		eventually(t, key+" expires", func() bool {
			_, err := ours.Read(key)
			return err == store.ErrNotFound
		})
	}
}

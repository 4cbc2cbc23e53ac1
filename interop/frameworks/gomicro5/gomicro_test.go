// Package gomicro5_test has the adapter work as the store of go-micro 5, and on the
// same buckets as the plug-in in go-micro 5's own module.
package gomicro5_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"go-micro.dev/v5/store"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/contrib/natskv/gomicro"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/interop/frameworks"
)

// adapter is our store with the types of go-micro 5.
type adapter = gomicro.Store[
	store.Record, store.Options, store.ReadOptions, store.WriteOptions, store.DeleteOptions, store.ListOptions,
	store.Option, store.ReadOption, store.WriteOption, store.DeleteOption, store.ListOption,
]

var _ store.Store = (*adapter)(nil)

var (
	noError    = frameworks.NoError
	eventually = testkit.Eventually
)

func open(t testing.TB, url string, l natskv.Layout) store.Store {
	t.Helper()
	a, err := gomicro.New[
		store.Record, store.Options, store.ReadOptions, store.WriteOptions, store.DeleteOptions, store.ListOptions,
		store.Option, store.ReadOption, store.WriteOption, store.DeleteOption, store.ListOption,
	](t.Context(), frameworks.OpenStore(t, url, l), &gomicro.Config{NotFound: store.ErrNotFound})
	noError(t, err)
	return a
}

// Everything that the interface has does what the store in memory, which go-micro
// brings along, does: each step is done with both.
func TestLikeTheStoreInMemory(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ours := open(t, srv.URL(), natskv.GoMicro(true))
	memory := store.NewMemoryStore()
	both := []store.Store{memory, ours}
	for _, s := range both {
		noError(t, s.Init(store.Database("app"), store.Table("users")))
		if o := s.Options(); o.Database != "app" || o.Table != "users" {
			t.Errorf("%s: options %+v", s, o)
		}
		if _, err := s.Read("ada"); err != store.ErrNotFound { // services compare
			t.Errorf("%s: what was never written: %v", s, err)
		}
		for i, key := range []string{"ada", "bob", "eve", "anne"} {
			noError(t, s.Write(&store.Record{Key: key, Value: []byte{byte('0' + i)}, Metadata: map[string]any{"i": "x"}}))
		}
		noError(t, s.Write(&store.Record{Key: "elsewhere"}, store.WriteTo("app", "groups")))
		noError(t, s.Write(&store.Record{Key: "brief", Value: []byte("b")}, store.WriteTTL(time.Hour)))
		noError(t, s.Delete("bob"))
	}
	for name, opts := range map[string][]store.ListOption{
		"all": nil, "prefix": {store.ListPrefix("a")}, "suffix": {store.ListSuffix("e")},
		"other table": {store.ListFrom("app", "groups")},
	} {
		want, err := memory.List(opts...)
		noError(t, err)
		got, err := ours.List(opts...)
		noError(t, err)
		if !slices.Equal(got, frameworks.Sorted(want)) {
			t.Errorf("%s: the list is %q; in memory %q", name, got, want)
		}
	}
	for _, key := range []string{"ada", "a", "bob", "nothing"} {
		want, wantErr := memory.Read(key)
		got, err := ours.Read(key)
		if err != wantErr || !maps.Equal(texts(got), texts(want)) {
			t.Errorf("%q: %v, %v; in memory %v, %v", key, texts(got), err, texts(want), wantErr)
		}
	}
	for _, s := range both {
		brief, err := s.Read("brief")
		noError(t, err)
		if e := brief[0].Expiry; e < 59*time.Minute || e > time.Hour {
			t.Errorf("%s: it expires in %v; want an hour", s, e)
		}
	}
	noError(t, memory.Close())
	noError(t, ours.Close())
}

func texts(records []*store.Record) map[string]string {
	all := make(map[string]string)
	for _, r := range records {
		all[r.Key] = string(r.Value)
	}
	return all
}

// The store in memory does not find prefixes in tables; the adapter does.
func TestReadsPrefixesAndSuffixes(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	s := open(t, srv.URL(), natskv.GoMicro(true))
	noError(t, s.Init(store.Table("users")))
	for _, key := range []string{"ada", "anne", "eve"} {
		noError(t, s.Write(&store.Record{Key: key, Value: []byte(key)}))
	}
	for name, c := range map[string]struct {
		opts []store.ReadOption
		key  string
		want map[string]string
	}{
		"prefix": {[]store.ReadOption{store.ReadPrefix()}, "a", map[string]string{"ada": "ada", "anne": "anne"}},
		"suffix": {[]store.ReadOption{store.ReadSuffix()}, "e", map[string]string{"anne": "anne", "eve": "eve"}},
		"page":   {[]store.ReadOption{store.ReadPrefix(), store.ReadOffset(1), store.ReadLimit(1)}, "a", map[string]string{"anne": "anne"}},
		"none":   {[]store.ReadOption{store.ReadPrefix()}, "x", map[string]string{}},
	} {
		got, err := s.Read(c.key, append(c.opts, store.ReadFrom("", "users"))...)
		noError(t, err)
		if !maps.Equal(texts(got), c.want) {
			t.Errorf("%s: %v; want %v", name, texts(got), c.want)
		}
	}
}

func TestExpiry(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	s := open(t, srv.URL(), natskv.GoMicro(false))
	noError(t, s.Write(&store.Record{Key: "old"}, store.WriteExpiry(time.Now().Add(-time.Second))))
	if _, err := s.Read("old"); err != store.ErrNotFound {
		t.Errorf("what had expired when it was written: %v", err)
	}
	keys := frameworks.WhileItLives(t, time.Second, func(key string) {
		noError(t, s.Write(&store.Record{Key: key, Expiry: time.Second}))
	}, func(key string) bool {
		_, err := s.Read(key)
		if err != store.ErrNotFound {
			noError(t, err)
		}
		return err == nil
	})
	for _, key := range keys {
		eventually(t, key+" expires", func() bool {
			_, err := s.Read(key)
			return err == store.ErrNotFound
		})
	}
}

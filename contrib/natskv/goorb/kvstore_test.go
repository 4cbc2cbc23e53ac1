package goorb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/contrib/natskv/goorb"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testnats.IgnoreLibrary()) }

// The types of go-orb's package kvstore, as far as the interfaces need them.
type (
	Record struct {
		Key    string     `json:"key"`
		Value  []byte     `json:"value"`
		Expiry *time.Time `json:"expiry,omitempty"`
	}
	GetOptions struct {
		Prefix, Suffix bool
		Limit, Offset  uint
	}
	SetOptions struct {
		Expiry time.Time
		TTL    time.Duration
	}
	KeysOptions struct {
		Prefix, Suffix string
		Limit, Offset  uint
	}
	ReadOptions struct {
		Database, Table string
		Prefix, Suffix  string
		Limit, Offset   uint
	}
	WriteOptions struct {
		Expiry          time.Time
		Database, Table string
		TTL             time.Duration
	}
	DeleteOptions struct{ Database, Table string }
	ListOptions   struct {
		Database, Table string
		Prefix, Suffix  string
		Limit, Offset   uint
	}
	WatchOp    uint8
	WatchEvent struct {
		Record
		Operation WatchOp
	}
	WatchOptions struct{ IgnoreDeletes, IncludeHistory, UpdatesOnly, MetaOnly bool }

	GetOption    func(*GetOptions)
	SetOption    func(*SetOptions)
	KeysOption   func(*KeysOptions)
	ReadOption   func(*ReadOptions)
	WriteOption  func(*WriteOptions)
	DeleteOption func(*DeleteOptions)
	ListOption   func(*ListOptions)
	WatchOption  func(*WatchOptions)

	KVStore interface {
		Start(ctx context.Context) error
		Stop(ctx context.Context) error
		Type() string
		String() string
		Read(key string, opts ...ReadOption) ([]*Record, error)
		Write(r *Record, opts ...WriteOption) error
		Delete(key string, opts ...DeleteOption) error
		List(opts ...ListOption) ([]string, error)
		Get(ctx context.Context, key, database, table string, opts ...GetOption) ([]Record, error)
		Set(ctx context.Context, key, database, table string, data []byte, opts ...SetOption) error
		Purge(ctx context.Context, key, database, table string) error
		Keys(ctx context.Context, database, table string, opts ...KeysOption) ([]string, error)
		DropTable(ctx context.Context, database, table string) error
		DropDatabase(ctx context.Context, database string) error
	}
	Watcher interface {
		Watch(ctx context.Context, database, table string, opts ...WatchOption) (<-chan WatchEvent, func() error, error)
	}
)

type adapter struct {
	*goorb.KVStore[Record, GetOptions, SetOptions, KeysOptions, ReadOptions, WriteOptions, DeleteOptions, ListOptions,
		GetOption, SetOption, KeysOption, ReadOption, WriteOption, DeleteOption, ListOption]
	*goorb.Watcher[WatchEvent, WatchOptions, WatchOption]
}

var (
	_ KVStore = adapter{}
	_ Watcher = adapter{}
)

var errNotFound = errors.New("not found")

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB, url string, l natskv.Layout) *natskv.Store {
	t.Helper()
	s, err := natskv.OpenStore(t.Context(), testnats.Connect(t, url), &natskv.Options{Layout: l, Timeout: testkit.Patience})
	noError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func open(t testing.TB, url string, l natskv.Layout, c goorb.Config) adapter {
	t.Helper()
	s := openStore(t, url, l)
	c.NotFound = errNotFound
	keys, err := goorb.New[Record, GetOptions, SetOptions, KeysOptions, ReadOptions, WriteOptions, DeleteOptions, ListOptions,
		GetOption, SetOption, KeysOption, ReadOption, WriteOption, DeleteOption, ListOption](t.Context(), s, &c)
	noError(t, err)
	watcher, err := goorb.NewWatcher[WatchEvent, WatchOptions, WatchOption](t.Context(), s, &c)
	noError(t, err)
	return adapter{keys, watcher}
}

func layout(t testing.TB, o natskv.OrbOptions) natskv.Layout {
	t.Helper()
	l, err := natskv.GoOrb(o)
	noError(t, err)
	return l
}

func texts(records []Record) []string {
	out := []string{}
	for _, r := range records {
		out = append(out, r.Key+"="+string(r.Value))
	}
	return out
}

func TestKVStore(t *testing.T) {
	for _, l := range []natskv.Layout{
		layout(t, natskv.OrbDefaults()), layout(t, natskv.OrbOptions{BucketPerTable: true, JSONKeyValues: true}),
		layout(t, natskv.OrbOptions{JSONKeyValues: true, KeyEncoding: "base32"}), natskv.Shared(true), natskv.Shared(false),
	} {
		t.Run(l.String(), func(t *testing.T) {
			srv := testnats.NewServer(t, nil)
			ctx := t.Context()
			s := open(t, srv.URL(), l, goorb.Config{})
			noError(t, s.Start(ctx))
			if s.Type() != "kvstore" || s.String() != "natsjs" {
				t.Errorf("type %s, name %s", s.Type(), s)
			}
			if _, err := s.Get(ctx, "a", "", "t"); !errors.Is(err, errNotFound) {
				t.Errorf("get of what is not there: %v", err)
			}
			if keys, err := s.Keys(ctx, "", "t"); err != nil || len(keys) != 0 {
				t.Errorf("keys of what is not there: %q, %v", keys, err)
			}
			for i := range 5 {
				noError(t, s.Set(ctx, fmt.Sprint("k", i), "", "t", fmt.Append(nil, i)))
			}
			one, err := s.Get(ctx, "k2", "", "t")
			noError(t, err)
			if !slices.Equal(texts(one), []string{"k2=2"}) || one[0].Expiry != nil {
				t.Errorf("get %q", texts(one))
			}
			page, err := s.Get(ctx, "k", "", "t", func(o *GetOptions) { o.Prefix, o.Offset, o.Limit = true, 3, 5 })
			noError(t, err)
			if !slices.Equal(texts(page), []string{"k3=3", "k4=4"}) {
				t.Errorf("page %q", texts(page))
			}
			noError(t, s.Purge(ctx, "k0", "", "t"))
			noError(t, s.Purge(ctx, "never", "", "t"))
			keys, err := s.Keys(ctx, "", "t", func(o *KeysOptions) { o.Prefix, o.Suffix, o.Limit = "k", "", 2 })
			noError(t, err)
			if !slices.Equal(keys, []string{"k1", "k2"}) {
				t.Errorf("keys %q", keys)
			}
			noError(t, s.Set(ctx, "brief", "", "t", nil, func(o *SetOptions) { o.TTL = time.Hour }))
			if r, err := s.Get(ctx, "brief", "", "t"); err != nil || r[0].Expiry == nil || time.Until(*r[0].Expiry) < 59*time.Minute {
				t.Errorf("record with a time to live: %+v, %v", r, err)
			}
			deprecated(t, s)
			noError(t, s.DropDatabase(ctx, "default"))
			noError(t, s.DropDatabase(ctx, "default"))
			if keys, err := s.Keys(ctx, "", "t"); err != nil || len(keys) != 0 {
				t.Errorf("keys after the drop: %q, %v", keys, err)
			}
		})
	}
}

// deprecated uses the methods for old programs.
func deprecated(t *testing.T, s adapter) {
	t.Helper()
	noError(t, s.Write(&Record{Key: "w", Value: []byte("1")}, func(o *WriteOptions) { o.Database, o.Table = "default", "t" }))
	r, err := s.Read("w", func(o *ReadOptions) { o.Table = "t" })
	noError(t, err)
	if len(r) != 1 || string(r[0].Value) != "1" {
		t.Errorf("Read %+v", r)
	}
	list, err := s.List(func(o *ListOptions) { o.Table, o.Prefix = "t", "w" })
	noError(t, err)
	if !slices.Equal(list, []string{"w"}) {
		t.Errorf("List %q", list)
	}
	noError(t, s.Delete("w", func(o *DeleteOptions) { o.Table = "t" }))
	if _, err := s.Read("w", func(o *ReadOptions) { o.Table = "t" }); !errors.Is(err, errNotFound) {
		t.Errorf("Read after Delete: %v", err)
	}
}

// A table from the configuration and the same table from a call share the bucket
// and do not see each other's keys, as in the plug-in.
func TestConfiguredTable(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	s := open(t, srv.URL(), layout(t, natskv.OrbDefaults()), goorb.Config{Database: "db", Table: "x"})
	noError(t, s.Set(t.Context(), "key", "", "", []byte("configured")))
	if _, err := s.Get(t.Context(), "key", "", "x"); !errors.Is(err, errNotFound) {
		t.Errorf("the named table shows the configured one's key: %v", err)
	}
	b, err := natskv.OpenTable[string](openStore(t, srv.URL(), layout(t, natskv.OrbDefaults())), "db", "x", &natskv.TableOptions{Bare: true})
	noError(t, err)
	e, err := b.Get(t.Context(), "key")
	noError(t, err)
	if e.Value != "configured" || b.BucketName() != "db_x" {
		t.Errorf("%q in %s", e.Value, b.BucketName())
	}
}

// In a bucket with many tables, a table from the configuration is the same as in a call, and
// the one that go-micro has.
func TestConfiguredTablesShareABucket(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	for _, table := range []string{"a", "b"} {
		noError(t, open(t, srv.URL(), natskv.Shared(false), goorb.Config{Table: table}).Set(ctx, "42", "", "", []byte("of "+table)))
	}
	micro := openStore(t, srv.URL(), natskv.GoMicro(false))
	for _, table := range []string{"a", "b"} {
		r, err := open(t, srv.URL(), natskv.Shared(false), goorb.Config{Table: table}).Get(ctx, "42", "", "")
		noError(t, err)
		b, err := natskv.OpenTable[string](micro, "", table, nil)
		noError(t, err)
		e, err := b.Get(ctx, "42")
		noError(t, err)
		if want := "of " + table; e.Value != want || !slices.Equal(texts(r), []string{"42=" + want}) {
			t.Errorf("table %s: go-micro reads %q, go-orb %q", table, e.Value, texts(r))
		}
	}
}

func TestDropIsExact(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	s := open(t, srv.URL(), layout(t, natskv.OrbDefaults()), goorb.Config{})
	for _, database := range []string{"app", "app2", "app_x"} {
		noError(t, s.Set(ctx, "k", database, "t", []byte("1")))
		noError(t, s.Set(ctx, "k", database, "u", []byte("1")))
	}
	noError(t, s.DropTable(ctx, "app", "t"))
	noError(t, s.DropDatabase(ctx, "app"))
	for _, database := range []string{"app2", "app_x"} {
		if _, err := s.Get(ctx, "k", database, "t"); err != nil {
			t.Errorf("dropping app dropped %s: %v", database, err)
		}
	}
	if _, err := s.Get(ctx, "k", "app", "u"); !errors.Is(err, errNotFound) {
		t.Errorf("app is still there: %v", err)
	}
}

func TestWatch(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	s := open(t, srv.URL(), layout(t, natskv.OrbDefaults()), goorb.Config{})
	ch, stop, err := s.Watch(ctx, "reg", "services") // creates the bucket, as go-orb's registry needs it
	noError(t, err)
	steps := []struct {
		do   func() error
		want string
	}{
		{func() error { return s.Set(ctx, "a", "reg", "services", []byte("1")) }, "0 a=1"},
		{func() error { return s.Set(ctx, "a", "reg", "services", []byte("2")) }, "1 a=2"},
		{func() error { return s.Purge(ctx, "a", "reg", "services") }, "2 a="},
	}
	for _, step := range steps {
		noError(t, step.do())
		select {
		case e := <-ch:
			if got := fmt.Sprintf("%d %s=%s", e.Operation, e.Key, e.Value); got != step.want {
				t.Errorf("event %s; want %s", got, step.want)
			}
		case <-time.After(testkit.Patience):
			t.Fatalf("no event %s", step.want)
		}
	}
	noError(t, s.Set(ctx, "unread", "reg", "services", nil)) // nobody takes this event
	noError(t, stop())
	if _, open := <-ch; open {
		t.Error("the channel is open after stop")
	}
}

// In the layout Shared, and in go-orb's compatible one with the empty table, both
// worlds see the same data.
func TestSharedWithGoMicro(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	s := open(t, srv.URL(), natskv.Shared(true), goorb.Config{})
	micro, err := natskv.OpenTable[string](openStore(t, srv.URL(), natskv.GoMicro(true)), "default", "t", nil)
	noError(t, err)
	noError(t, s.Set(ctx, "orb", "", "t", []byte("1")))
	_, err = micro.Put(ctx, "micro", "2")
	noError(t, err)
	e, err := micro.Get(ctx, "orb")
	noError(t, err)
	r, err := s.Get(ctx, "micro", "", "t")
	noError(t, err)
	if e.Value != "1" || !slices.Equal(texts(r), []string{"micro=2"}) {
		t.Errorf("micro reads %q, orb %q", e.Value, texts(r))
	}
	compat := open(t, srv.URL(), layout(t, natskv.OrbOptions{JSONKeyValues: true, KeyEncoding: "base32"}), goorb.Config{})
	r, err = compat.Get(ctx, "t_micro", "", "")
	noError(t, err)
	if !slices.Equal(texts(r), []string{"t_micro=2"}) {
		t.Errorf("go-orb's plug-in would read %q", texts(r))
	}
	_, err = micro.Put(ctx, "gone", "3")
	noError(t, err)
	noError(t, s.Purge(ctx, "gone", "", "t"))
	if _, err := micro.Get(ctx, "gone"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("micro reads what orb purged: %v", err)
	}
	if n, err := micro.Count(ctx, &kv.Query{}); err != nil || n != 1 && n != 2 {
		t.Errorf("count %d, %v", n, err)
	}
}

func TestTypesThatDoNotFit(t *testing.T) {
	_, err := goorb.NewWatcher[Record, WatchOptions, WatchOption](t.Context(), nil, nil)
	if !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("an event without an operation: %v", err)
	}
}

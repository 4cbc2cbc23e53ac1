package natskv_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, testnats.IgnoreLibrary()) }

const patience = testkit.Patience

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v; want %v", err, want)
	}
}

// connect returns a connection to a server, closed when the test ends.
func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	return testnats.Connect(t, url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
}

// open returns a store with a connection of its own. It has all the time to open, and so have
// its requests, unless o says otherwise.
func open(t testing.TB, url string, o *natskv.Options) *natskv.Store {
	t.Helper()
	var c natskv.Options
	if o != nil {
		c = *o
	}
	c.Timeout = cmp.Or(c.Timeout, patience)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := natskv.OpenStore(ctx, connect(t, url), &c)
	noError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// openRestless is open for a test whose servers stop: what a server was asked before is asked
// again soon, unless the context of a call has a deadline.
func openRestless(t testing.TB, url string, o natskv.Options) *natskv.Store {
	t.Helper()
	o.Timeout = natskv.DefaultTimeout
	return open(t, url, &o)
}

func table[T any](t testing.TB, s *natskv.Store, name string, o *natskv.TableOptions) *natskv.Bucket[T] {
	t.Helper()
	b, err := natskv.Open[T](s, name, o)
	noError(t, err)
	return b
}

func keysOf[T any](t testing.TB, b *natskv.Bucket[T], q *kv.Query) []string {
	t.Helper()
	var keys []string
	for k, err := range b.Keys(t.Context(), q) {
		noError(t, err)
		keys = append(keys, k)
	}
	return keys
}

// keysInTheEnd is keysOf for a store of openRestless: again while its index is not up to date.
func keysInTheEnd[T any](t testing.TB, b *natskv.Bucket[T], q *kv.Query) (keys []string) {
	t.Helper()
	testkit.Succeeds(t, "the keys are listed", func() error {
		keys = nil
		for k, err := range b.Keys(t.Context(), q) {
			if err != nil {
				return err
			}
			keys = append(keys, k)
		}
		return nil
	})
	return keys
}

func js(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	return testnats.JetStream(t, connect(t, url))
}

func orb(t testing.TB, o natskv.OrbOptions) natskv.Layout {
	t.Helper()
	l, err := natskv.GoOrb(o)
	noError(t, err)
	return l
}

// layouts returns every layout.
func layouts(t testing.TB) []natskv.Layout {
	all := []natskv.Layout{natskv.NATS(), natskv.GoMicro(false), natskv.GoMicro(true), natskv.Shared(false), natskv.Shared(true)}
	for _, perTable := range []bool{true, false} {
		for _, asJSON := range []bool{true, false} {
			for _, encoding := range []string{"base32", ""} {
				all = append(all, orb(t, natskv.OrbOptions{BucketPerTable: perTable, JSONKeyValues: asJSON, KeyEncoding: encoding}))
			}
		}
	}
	return all
}

// eachLayout runs f with a store in each layout, on one server.
func eachLayout(t *testing.T, o natskv.Options, f func(t *testing.T, url string, s *natskv.Store)) {
	for _, l := range layouts(t) {
		t.Run(l.String(), func(t *testing.T) {
			srv := testnats.NewServer(t, nil)
			o.Layout = l
			f(t, srv.URL(), open(t, srv.URL(), &o))
		})
	}
}

func TestBasicsInEveryLayout(t *testing.T) {
	for _, cached := range []int64{0, 1 << 20} {
		eachLayout(t, natskv.Options{CacheBytes: cached}, func(t *testing.T, url string, s *natskv.Store) {
			ctx := t.Context()
			b := table[string](t, s, "app/t", nil)
			_, err := b.Get(ctx, "a")
			wantError(t, err, errNotFound)
			if got := keysOf(t, b, nil); got != nil {
				t.Fatalf("keys of a bucket that does not exist: %q", got)
			}
			r1 := must[kv.Revision](t)(b.Put(ctx, "a", "1"))
			e := must[kv.Entry[string]](t)(b.Get(ctx, "a"))
			if e.Value != "1" || e.Revision != r1 || e.Key != "a" || e.Op != kv.OpUpdate || time.Since(e.Modified).Abs() > time.Minute {
				t.Fatalf("entry %+v; want the value 1 at revision %d", e, r1)
			}
			_, err = b.Create(ctx, "a", "x")
			wantError(t, err, errExists)
			_, err = b.Update(ctx, "a", "x", r1+7)
			wantError(t, err, errConflict)
			r2 := must[kv.Revision](t)(b.Update(ctx, "a", "2", r1))
			must[kv.Revision](t)(b.Create(ctx, "b", "3"))
			if got := keysOf(t, b, nil); !slices.Equal(got, []string{"a", "b"}) {
				t.Fatalf("keys %q", got)
			}
			wantError(t, b.Delete(ctx, "a", natskv.IfRevision(r1)), errConflict)
			noError(t, b.Delete(ctx, "a", natskv.IfRevision(r2)))
			_, err = b.Get(ctx, "a")
			wantError(t, err, errNotFound)
			if got := keysOf(t, b, nil); !slices.Equal(got, []string{"b"}) {
				t.Fatalf("keys after delete %q", got)
			}
			must[kv.Revision](t)(b.Create(ctx, "a", "4")) // over the marker
			noError(t, b.Purge(ctx, "a"))
			noError(t, b.Purge(ctx, "never"))
			must[[]kv.Revision](t)(b.PutMany(ctx, []kv.Pair[string]{{Key: "c", Value: "5"}, {Key: "d", Value: "6"}}))
			must[[]kv.Revision](t)(b.PutMany(ctx, []kv.Pair[string]{{Key: "e", Value: "7"}, {Key: "f", Value: "8"}}, natskv.Atomic()))
			many := must[[]kv.Entry[string]](t)(b.GetMany(ctx, "f", "a", "c", "f", "nix"))
			got := []string{}
			for _, e := range many {
				got = append(got, e.Key+"="+e.Value)
			}
			if want := []string{"f=8", "a=", "c=5", "f=8", "nix="}; !slices.Equal(got, want) {
				t.Fatalf("GetMany %q; want %q", got, want)
			}
			all := ""
			for e, err := range b.List(ctx, &kv.Query{Start: "c"}) {
				noError(t, err)
				all += e.Key + e.Value
			}
			if all != "c5d6e7f8" {
				t.Fatalf("List %q", all)
			}
		})
	}
}

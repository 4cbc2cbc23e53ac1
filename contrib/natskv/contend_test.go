package natskv

import (
	"cmp"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/kv"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// connectTo returns a connection to a server, closed when the test ends.
func connectTo(t testing.TB, url string) *nats.Conn {
	t.Helper()
	return testnats.Connect(t, url)
}

// openStore returns a store with a connection of its own. Its requests may take as long as the
// test waits for anything, unless o says otherwise.
func openStore(t testing.TB, url string, o *Options) *Store {
	t.Helper()
	var c Options
	if o != nil {
		c = *o
	}
	c.Timeout = cmp.Or(c.Timeout, testkit.Patience)
	s := must[*Store](t)(OpenStore(t.Context(), connectTo(t, url), &c))
	t.Cleanup(func() { s.Close() })
	return s
}

// jetStream returns JetStream of a server, with a connection of its own.
func jetStream(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	return testnats.JetStream(t, connectTo(t, url))
}

// openTable returns the table b of a store with a connection of its own. It exists.
func openTable(t testing.TB, url string, o *Options) *Bucket[string] {
	t.Helper()
	b := must[*Bucket[string]](t)(Open[string](openStore(t, url, o), "b", nil))
	must[*facts](t)(b.ensure(t.Context()))
	return b
}

// openDeaf returns the table b of a store with a cache that nobody tells of the writes of
// others: its index has no feed.
func openDeaf(t testing.TB, url string) *Bucket[string] {
	t.Helper()
	b := openTable(t, url, &Options{CacheBytes: 1 << 20, MaxStale: time.Hour})
	x := b.stream.index
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state, x.fresh, x.bucket = indexReady, time.Now(), b.stream.known.Load().created
	return b
}

// After a conflict, reads are not older than what the conflict tells of.
func TestConflictsReachTheCache(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	other := openTable(t, srv.URL(), nil)
	b := openDeaf(t, srv.URL())
	for _, c := range []struct {
		name string
		fail func(key string, old kv.Revision) error
	}{
		{"create", func(key string, _ kv.Revision) error { _, err := b.Create(ctx, key, "3"); return err }},
		{"update", func(key string, old kv.Revision) error { _, err := b.Update(ctx, key, "3", old); return err }},
		{"delete", func(key string, old kv.Revision) error { return b.Delete(ctx, key, IfRevision(old)) }},
		{"put many", func(key string, old kv.Revision) error {
			_, err := b.PutMany(ctx, []kv.Pair[string]{{Key: key, Value: "3"}}, IfRevision(old), Atomic())
			return err
		}},
	} {
		key := "k-" + c.name[:3]
		old := must[kv.Revision](t)(b.Put(ctx, key, "1"))
		newest := must[kv.Revision](t)(other.Put(ctx, key, "2"))
		if e := must[kv.Entry[string]](t)(b.Get(ctx, key)); e.Revision != old {
			t.Fatalf("%s: read revision %d; the cache has %d", c.name, e.Revision, old)
		}
		var e *mainstem.Error
		if err := c.fail(key, old); !errors.As(err, &e) || e.Got != newest {
			t.Fatalf("%s: %v; want a conflict with %d", c.name, err, newest)
		}
		if e := must[kv.Entry[string]](t)(b.Get(ctx, key)); e.Revision != newest || e.Value != "2" {
			t.Errorf("%s: read %q at %d after a conflict with %d", c.name, e.Value, e.Revision, newest)
		}
	}
}

// So is the absence of a key that a conflict tells of.
func TestConflictsTellTheCacheOfAbsence(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	other := openTable(t, srv.URL(), nil)
	b := openDeaf(t, srv.URL())
	stream := must[jetstream.Stream](t)(jetStream(t, srv.URL()).Stream(ctx, "KV_b"))
	for key, end := range map[string]func(key string) error{
		"deleted": func(key string) error { return other.Delete(ctx, key) },
		"removed": func(key string) error { return stream.Purge(ctx, jetstream.WithPurgeSubject("$KV.b."+key)) },
	} {
		old := must[kv.Revision](t)(b.Put(ctx, key, "1"))
		if err := end(key); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Update(ctx, key, "2", old); !errors.Is(err, mainstem.ErrConflict) {
			t.Fatalf("%s: update: %v", key, err)
		}
		if e, err := b.Get(ctx, key); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("%s: read revision %d, %v", key, e.Revision, err)
		}
	}
}

// Modify takes up what it lost against, and its next try holds.
func TestModifyFollowsConflicts(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	other := openTable(t, srv.URL(), nil)
	b := openDeaf(t, srv.URL())
	must[kv.Revision](t)(b.Put(ctx, "k", "1"))
	must[kv.Revision](t)(other.Put(ctx, "k", "2"))
	tries := 0
	must[kv.Revision](t)(b.Modify(ctx, "k", func(old string, _ bool) (string, error) {
		if tries++; tries > 2 {
			return "", errors.New("too many tries")
		}
		return old + "+", nil
	}))
	if e := must[kv.Entry[string]](t)(other.Get(ctx, "k")); e.Value != "2+" {
		t.Errorf("the value is %q", e.Value)
	}
}

// What the history or a read of a revision shows of a key, other reads are not behind.
func TestReadsOfThePastReachTheCache(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	other := openTable(t, srv.URL(), nil)
	b := openDeaf(t, srv.URL())
	for key, show := range map[string]func(newest kv.Revision) (kv.Entry[string], error){
		"revision": func(newest kv.Revision) (kv.Entry[string], error) { return b.GetRevision(ctx, "revision", newest) },
		"history": func(kv.Revision) (last kv.Entry[string], err error) {
			for last, err = range b.History(ctx, "history") {
			}
			return last, err
		},
	} {
		must[kv.Revision](t)(b.Put(ctx, key, "1"))
		newest := must[kv.Revision](t)(other.Put(ctx, key, "2"))
		if e := must[kv.Entry[string]](t)(show(newest)); e.Revision != newest {
			t.Fatalf("%s: it shows revision %d; want %d", key, e.Revision, newest)
		}
		if e := must[kv.Entry[string]](t)(b.Get(ctx, key)); e.Revision != newest || e.Value != "2" {
			t.Errorf("%s: read %q at %d after revision %d", key, e.Value, e.Revision, newest)
		}
	}
}

// A feed can be woken as soon as the store knows of it: a connection may be lost and be back
// while an index begins.
func TestFeedIsWokenWhileItBegins(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	b := openTable(t, srv.URL(), nil)
	var listing sync.WaitGroup
	listing.Go(func() {
		if _, err := b.Count(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
	testkit.Eventually(t, "the feed runs", func() bool {
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		return len(b.store.mu.feeds) > 0
	})
	b.store.wakeFeeds()
	listing.Wait()
}

package natskv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/kv"
)

// events collects what a watch tells, as "op key=value", until stop.
type events struct {
	mu   sync.Mutex
	list []string
	last mainstem.Position
	err  error
	done chan struct{}
	stop context.CancelFunc
}

// follow watches in the background until the test ends.
func follow(t testing.TB, b *natskv.Bucket[string], o *kv.WatchOptions) *events {
	ctx, stop := context.WithCancel(context.Background())
	e := &events{done: make(chan struct{}), stop: stop}
	go func() {
		defer close(e.done)
		for x, err := range b.Watch(ctx, o) {
			e.mu.Lock()
			if err != nil {
				e.err = err
			} else if x.Op == kv.OpSynced {
				e.list = append(e.list, "synced")
			} else {
				e.list = append(e.list, fmt.Sprintf("%s %s=%s", x.Op, x.Key, x.Value))
			}
			if err == nil {
				e.last = x.Position
			}
			e.mu.Unlock()
		}
	}()
	t.Cleanup(func() { stop(); <-e.done })
	return e
}

func (e *events) seen() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

func (e *events) await(t testing.TB, want ...string) {
	t.Helper()
	deadline := time.After(patience)
	for !slices.Equal(e.seen(), want) {
		select {
		case <-deadline:
			t.Fatalf("the watch has told %q; want %q", e.seen(), want)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestWatchInEveryLayout(t *testing.T) {
	eachLayout(t, natskv.Options{}, func(t *testing.T, url string, s *natskv.Store) {
		ctx := t.Context()
		b := table[string](t, s, "app/t", nil)
		for e, err := range b.Watch(ctx, nil) {
			wantError(t, err, errNotFound)
			if e.Key != "" {
				t.Errorf("entry %+v of a bucket that does not exist", e)
			}
		}
		must[kv.Revision](t)(b.Put(ctx, "a", "1"))
		must[kv.Revision](t)(b.Put(ctx, "b", "2"))
		noError(t, b.Delete(ctx, "b"))
		all := follow(t, b, nil)
		prefix := follow(t, b, &kv.WatchOptions{Prefix: "x", IgnoreDeletes: true})
		updates := follow(t, b, &kv.WatchOptions{UpdatesOnly: true, MetaOnly: true})
		for _, e := range []*events{all, prefix, updates} {
			testkit.Eventually(t, "the watch is synced", func() bool { return slices.Contains(e.seen(), "synced") })
		}
		other := table[string](t, open(t, url, &natskv.Options{Layout: s.Layout()}), "app/t", nil) // another client
		must[kv.Revision](t)(other.Put(ctx, "a", "3"))
		want := [][]string{{"update a=1", "delete b=", "synced", "update a=3"}, {"synced"}, {"synced", "update a="}}
		step := func(add ...string) { // one at a time: with one revision, a slow watch sees the newest only
			for i, e := range []*events{all, prefix, updates} {
				if add[i] != "" {
					want[i] = append(want[i], add[i])
				}
				e.await(t, want[i]...)
			}
		}
		must[kv.Revision](t)(other.Put(ctx, "xb", "4"))
		step("create xb=4", "create xb=4", "update xb=")
		noError(t, other.Purge(ctx, "xb"))
		step("purge xb=", "", "purge xb=")
		must[kv.Revision](t)(other.Put(ctx, "xa", "0")) // shows that the watch that ignores the purge is past it
		step("create xa=0", "create xa=0", "update xa=")
		must[kv.Revision](t)(other.Put(ctx, "xb", "5"))
		step("create xb=5", "create xb=5", "create xb=")
	})
}

func TestWatchResumes(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	b := table[string](t, open(t, srv.URL(), nil), "b", &natskv.TableOptions{History: 10})
	first := must[kv.Revision](t)(b.Put(t.Context(), "a", "1"))
	must[kv.Revision](t)(b.Put(t.Context(), "a", "2"))
	must[kv.Revision](t)(b.Put(t.Context(), "c", "3"))
	follow(t, b, &kv.WatchOptions{After: mainstem.Position(first)}).await(t, "update a=2", "update c=3", "synced")
	follow(t, b, &kv.WatchOptions{History: true}).await(t, "update a=1", "update a=2", "update c=3", "synced")
	follow(t, b, nil).await(t, "update a=2", "update c=3", "synced")
	beyond := follow(t, b, &kv.WatchOptions{After: 1000})
	<-beyond.done
	wantError(t, beyond.err, errUnavailable)
}

func TestWatchEnds(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	s := open(t, srv.URL(), &natskv.Options{MaxStale: natskv.MinMaxStale})
	b := table[string](t, s, "b", nil)
	must[kv.Revision](t)(b.Put(t.Context(), "a", "1"))
	canceled := follow(t, b, nil)
	canceled.await(t, "update a=1", "synced")
	canceled.stop()
	<-canceled.done
	wantError(t, canceled.err, mainstem.ErrCanceled)

	dropped := follow(t, b, nil)
	dropped.await(t, "update a=1", "synced")
	noError(t, s.DropTable(t.Context(), "", "b"))
	<-dropped.done
	wantError(t, dropped.err, errNotFound)

	must[kv.Revision](t)(b.Put(t.Context(), "a", "2"))
	closed := follow(t, b, nil)
	closed.await(t, "update a=2", "synced")
	noError(t, s.Close())
	<-closed.done
	wantError(t, closed.err, errClosed)
	_, err := b.Get(t.Context(), "a")
	wantError(t, err, errClosed)
	_, err = b.Put(t.Context(), "a", "3")
	wantError(t, err, errClosed)
	for _, err := range b.Keys(t.Context(), nil) {
		wantError(t, err, errClosed)
	}
}

// A server that restarts under watches, lists and caches leaves no hole.
func TestServerRestarts(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	reader := table[string](t, openRestless(t, srv.URL(), natskv.Options{CacheBytes: 1 << 20, MaxStale: natskv.MinMaxStale}), "b", nil)
	writer := table[string](t, openRestless(t, srv.URL(), natskv.Options{}), "b", nil)
	must[kv.Revision](t)(writer.Put(ctx, "n", "0"))
	w := follow(t, reader, nil)
	w.await(t, "update n=0", "synced")
	if got := keysInTheEnd(t, reader, nil); !slices.Equal(got, []string{"n"}) {
		t.Fatalf("keys %q", got)
	}
	want := []string{"update n=0", "synced"}
	for i := range 3 {
		for j := range 20 {
			k := fmt.Sprintf("k%d-%d", i, j)
			put(t, writer, k, strconv.Itoa(j))
			want = append(want, fmt.Sprintf("create %s=%d", k, j))
		}
		w.await(t, want...) // with one revision, a watch that was away does not see what was deleted since
		noError(t, writer.Delete(ctx, fmt.Sprintf("k%d-0", i)))
		want = append(want, fmt.Sprintf("delete k%d-0=", i))
		srv.Stop()
		srv.Start()
	}
	put(t, writer, "n", "end")
	want = append(want, "update n=end")
	w.await(t, want...)
	if got := len(keysInTheEnd(t, reader, nil)); got != 3*19+1 {
		t.Errorf("%d keys after the restarts; want %d", got, 3*19+1)
	}
	e := must[kv.Entry[string]](t)(reader.Get(ctx, "n"))
	if e.Value != "end" {
		t.Errorf("cached value %q after the restarts", e.Value)
	}
}

// put writes until the value is there: servers restart. Each try may take longer than the one before. However
// many of them arrive, late ones included, the value is written once: they want the revision that was there before.
func put(t testing.TB, b *natskv.Bucket[string], key, value string) {
	t.Helper()
	var before *kv.Revision // 0: the key has no value; nil: not known yet
	for limit := time.Second; ; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		e, err := b.Get(ctx, key)
		cancel()
		switch {
		case err == nil && e.Value == value && before != nil: // a try whose answer was lost was one all the same
			return
		case before == nil && (err == nil || errors.Is(err, errNotFound)):
			before = &e.Revision
		}
		if before != nil {
			ctx, cancel = context.WithTimeout(t.Context(), limit)
			_, err = b.Put(ctx, key, value, natskv.IfRevision(*before))
			cancel()
			if err == nil {
				return
			}
		}
		if limit > patience {
			t.Errorf("put %s: %v", key, err)
			return
		}
	}
}

// A bucket that is deleted and made anew, by another client, is followed: lists
// and cached values are those of the new one.
func TestBucketMadeAnew(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	b := table[string](t, open(t, srv.URL(), &natskv.Options{CacheBytes: 1 << 20, MaxStale: natskv.MinMaxStale}), "b", nil)
	for i := range 10 {
		must[kv.Revision](t)(b.Put(ctx, fmt.Sprint("old", i), "1"))
	}
	must[int64](t)(b.Count(ctx, nil))
	w := follow(t, b, nil)
	testkit.Eventually(t, "synced", func() bool { return slices.Contains(w.seen(), "synced") })
	other := open(t, srv.URL(), nil)
	noError(t, other.DropTable(ctx, "", "b"))
	fresh := table[string](t, other, "b", nil)
	must[kv.Revision](t)(fresh.Put(ctx, "new", "2"))
	<-w.done
	if !errors.Is(w.err, errUnavailable) && !errors.Is(w.err, errNotFound) {
		t.Errorf("the watch of the old bucket ended with %v", w.err)
	}
	testkit.Eventually(t, "the list is that of the new bucket", func() bool { return slices.Equal(keysOf(t, b, nil), []string{"new"}) })
	if e := must[kv.Entry[string]](t)(b.Get(ctx, "new")); e.Value != "2" {
		t.Errorf("value %q", e.Value)
	}
	_, err := b.Get(ctx, "old1")
	wantError(t, err, errNotFound)
}

// What a slow watch tells of a bucket that was deleted does not reach the lists of the new one.
func TestSlowWatchOfADeletedBucket(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	b := table[string](t, open(t, srv.URL(), &natskv.Options{CacheBytes: 1 << 20, MaxStale: natskv.MinMaxStale}), "b", nil)
	for range 10 {
		must[kv.Revision](t)(b.Put(ctx, "first", "old"))
	}
	must[kv.Revision](t)(b.Put(ctx, "k", "old"))
	listed := func() (r kv.Revision) {
		for e, err := range b.List(ctx, &kv.Query{Prefix: "k", KeysOnly: true}) {
			noError(t, err)
			r = e.Revision
		}
		return r
	}
	if r := listed(); r != 11 {
		t.Fatalf("k is listed at %d; want 11", r)
	}
	first, goOn := make(chan struct{}), make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	var once sync.Once
	var watch sync.WaitGroup
	watch.Go(func() {
		for range b.Watch(watching, nil) {
			once.Do(func() { close(first) })
			select {
			case <-goOn:
			case <-watching.Done():
			}
		}
	})
	defer watch.Wait()
	defer stop()
	<-first
	other := open(t, srv.URL(), nil)
	noError(t, other.DropTable(ctx, "", "b"))
	must[kv.Revision](t)(table[string](t, other, "b", nil).Put(ctx, "k", "new"))
	testkit.Eventually(t, "the list is that of the new bucket", func() bool { return listed() == 1 })
	close(goOn)
	watch.Wait()
	if r := listed(); r != 1 {
		t.Errorf("k is listed at %d; want 1", r)
	}
}

// The KeyValue API of nats.go, and its watcher, see the same data, both ways.
func TestPlainClientSeesTheSame(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	b := table[string](t, open(t, srv.URL(), &natskv.Options{CacheBytes: 1 << 20}), "b", nil)
	rev := must[kv.Revision](t)(b.Put(ctx, "a", "1"))
	plain, err := js(t, srv.URL()).KeyValue(ctx, "b")
	noError(t, err)
	e, err := plain.Get(ctx, "a")
	noError(t, err)
	if string(e.Value()) != "1" || e.Revision() != uint64(rev) {
		t.Fatalf("plain %q at %d", e.Value(), e.Revision())
	}
	w := follow(t, b, nil)
	w.await(t, "update a=1", "synced")
	must[int64](t)(b.Count(ctx, nil))
	want := []string{"update a=1", "synced"}
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { _, err := plain.Put(ctx, "c", []byte("2")); return err }, "create c=2"},
		{func() error { _, err := plain.Update(ctx, "a", []byte("3"), uint64(rev)); return err }, "update a=3"},
		{func() error { return plain.Delete(ctx, "c") }, "delete c="},
		{func() error { _, err := plain.Create(ctx, "c", []byte("4")); return err }, "create c=4"},
	} {
		noError(t, step.do())
		want = append(want, step.want)
		w.await(t, want...)
	}
	noError(t, b.Sync(ctx))
	if got := keysOf(t, b, nil); !slices.Equal(got, []string{"a", "c"}) {
		t.Fatalf("keys %q", got)
	}
	if e := must[kv.Entry[string]](t)(b.Get(ctx, "a")); e.Value != "3" {
		t.Fatalf("value %q", e.Value)
	}
	noError(t, b.Purge(ctx, "a"))
	if keys := must[[]string](t)(plain.Keys(ctx)); !slices.Equal(keys, []string{"c"}) {
		t.Fatalf("plain keys %q", keys)
	}
}

// Messages that are no keys of the layout are left out, and do no harm.
func TestForeignMessages(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	b := table[string](t, open(t, srv.URL(), &natskv.Options{Layout: natskv.Shared(true)}), "app/t", nil)
	must[kv.Revision](t)(b.Put(t.Context(), "a", "1"))
	w := follow(t, b, nil)
	for _, token := range []string{"plain", "a.b", "ORSXG5BNNNSXT===", "===", "MZXW6==="} {
		publish(t, srv.URL(), &nats.Msg{Subject: "$KV.app." + token, Data: []byte("x")})
	}
	subject := must[string](t)(b.Subject("broken"))
	publish(t, srv.URL(), &nats.Msg{Subject: subject, Data: []byte("not JSON")})
	noError(t, b.Sync(t.Context()))
	if got := keysOf(t, b, nil); !slices.Equal(got, []string{"a", "broken"}) {
		t.Fatalf("keys %q", got)
	}
	_, err := b.Get(t.Context(), "broken")
	wantError(t, err, errCorrupt)
	corrupt := 0
	for e, err := range b.List(t.Context(), nil) {
		if errors.Is(err, errCorrupt) && e.Key == "broken" {
			corrupt++
		} else {
			noError(t, err)
		}
	}
	if corrupt != 1 {
		t.Errorf("the list has told of %d values that cannot be read", corrupt)
	}
	testkit.Eventually(t, "the watch tells of what cannot be read", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return errors.Is(w.err, errCorrupt)
	})
}

// Cached reads of many goroutines never go back, while another client writes.
func TestCachedReadsNeverGoBack(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	writer := table[int](t, open(t, srv.URL(), nil), "b", nil)
	must[kv.Revision](t)(writer.Put(t.Context(), "n", 0))
	reader := table[int](t, open(t, srv.URL(), &natskv.Options{CacheBytes: 1 << 20}), "b", nil)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for last := 0; ; {
				e, err := reader.Get(t.Context(), "n")
				if err != nil || e.Value < last {
					t.Errorf("read %d after %d, %v", e.Value, last, err)
					return
				}
				last = e.Value
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 500 {
		must[kv.Revision](t)(writer.Put(t.Context(), "n", i+1))
	}
	noError(t, reader.Sync(t.Context()))
	if e := must[kv.Entry[int]](t)(reader.Get(t.Context(), "n")); e.Value != 500 {
		t.Errorf("read %d after Sync; want 500", e.Value)
	}
	close(done)
	wg.Wait()
}

package natskv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/kv"
)

// Of the writers that saw a revision, one succeeds: a counter counts them all.
func TestConcurrentCompareAndSet(t *testing.T) {
	const writers, each = 4, 25
	srv := testnats.NewServer(t, nil)
	var wg sync.WaitGroup
	for w := range writers {
		s := open(t, srv.URL(), &natskv.Options{CacheBytes: int64(w%2) << 20}) // some of them with a cache
		b := table[int](t, s, "counters", nil)
		wg.Go(func() {
			for range each {
				if err := increment(t.Context(), b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b := table[int](t, open(t, srv.URL(), nil), "counters", nil)
	if e := must[kv.Entry[int]](t)(b.Get(t.Context(), "n")); e.Value != writers*each {
		t.Errorf("the counter is %d; want %d", e.Value, writers*each)
	}
}

func increment(ctx context.Context, b *natskv.Bucket[int]) error {
	for {
		e, err := b.Get(ctx, "n")
		if err != nil && !errors.Is(err, errNotFound) {
			return err
		}
		if _, err = b.Update(ctx, "n", e.Value+1, e.Revision); !errors.Is(err, errConflict) {
			return err
		}
	}
}

func TestConflictSaysWhatIsThere(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	b := table[string](t, open(t, srv.URL(), nil), "b", nil)
	rev := must[kv.Revision](t)(b.Put(t.Context(), "k", "1"))
	var e *mainstem.Error
	_, err := b.Update(t.Context(), "k", "2", rev+1)
	if !errors.As(err, &e) || e.Got != rev || !e.GotLive || e.Want.Version != rev+1 || e.Outcome != mainstem.NotWritten {
		t.Errorf("conflict %+v", e)
	}
	noError(t, b.Delete(t.Context(), "k"))
	_, err = b.Update(t.Context(), "k", "2", rev)
	if !errors.As(err, &e) || e.Got != rev+1 || e.GotLive {
		t.Errorf("conflict %+v", e)
	}
	_, err = b.Update(t.Context(), "new", "2", 0)
	noError(t, err)
}

// What this store wrote, its lists and cached values show at once.
func TestReadYourWrites(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	for _, cached := range []int64{0, 1 << 20} {
		b := table[string](t, open(t, srv.URL(), &natskv.Options{CacheBytes: cached}), "b", nil)
		for i := range 200 {
			k, v := fmt.Sprint("k", i%7), fmt.Sprint(i)
			if i%3 == 2 {
				noError(t, b.Delete(t.Context(), k))
				if got := keysOf(t, b, &kv.Query{Start: k, End: k + "\x00"}); len(got) != 0 {
					t.Fatalf("%s is listed after its deletion", k)
				}
				if _, err := b.Get(t.Context(), k); !errors.Is(err, errNotFound) {
					t.Fatalf("%s is there after its deletion: %v", k, err)
				}
				continue
			}
			rev := must[kv.Revision](t)(b.Put(t.Context(), k, v))
			if e := must[kv.Entry[string]](t)(b.Get(t.Context(), k)); e.Value != v || e.Revision != rev {
				t.Fatalf("%s is %q at %d; want %q at %d", k, e.Value, e.Revision, v, rev)
			}
			for e, err := range b.List(t.Context(), &kv.Query{Start: k, Limit: 1, KeysOnly: true}) {
				noError(t, err)
				if e.Key != k || e.Revision != rev {
					t.Fatalf("listed %s at %d; want %s at %d", e.Key, e.Revision, k, rev)
				}
			}
		}
	}
}

// Sync makes lists and cached values show what other clients wrote before.
func TestSyncShowsOthersWrites(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	reader := table[string](t, open(t, srv.URL(), &natskv.Options{CacheBytes: 1 << 20}), "b", nil)
	noError(t, reader.Sync(t.Context()))
	writer := table[string](t, open(t, srv.URL(), nil), "b", nil)
	for i := range 100 {
		v := fmt.Sprint(i)
		must[kv.Revision](t)(writer.Put(t.Context(), "k"+v, v))
		must[kv.Revision](t)(writer.Put(t.Context(), "same", v))
		if i%10 == 9 { // messages that are gone again must not be waited for
			noError(t, writer.Purge(t.Context(), "gone"))
			st := must[jetstream.Stream](t)(js(t, srv.URL()).Stream(t.Context(), "KV_b"))
			noError(t, st.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b.gone")))
		}
		noError(t, reader.Sync(t.Context()))
		if n := must[int64](t)(reader.Count(t.Context(), nil)); n != int64(i+2) {
			t.Fatalf("%d keys after %d writes", n, i+1)
		}
		if e := must[kv.Entry[string]](t)(reader.Get(t.Context(), "same")); e.Value != v {
			t.Fatalf("value %q; want %q", e.Value, v)
		}
	}
}

func TestTimeToLive(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	// After its last stream is deleted, a server removes the empty directory of streams beside what follows, and
	// refuses a stream that is created at that moment (10049).
	must[jetstream.KeyValue](t)(js(t, srv.URL()).CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "remains"}))
	must[jetstream.KeyValue](t)(js(t, srv.URL()).CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "b"})) // without TTLs
	b := table[string](t, open(t, srv.URL(), &natskv.Options{CacheBytes: 1 << 20}), "b", nil)
	must[int64](t)(b.Count(ctx, nil))
	must[kv.Revision](t)(b.Put(ctx, "stays", "1"))
	must[kv.Revision](t)(b.Put(ctx, "later", "2", natskv.TTL(time.Hour-700*time.Millisecond))) // up to whole seconds
	e := must[kv.Entry[string]](t)(b.Get(ctx, "later"))
	if d := e.Expires.Sub(e.Modified); d != time.Hour {
		t.Errorf("lives for %v; want an hour", d)
	}
	if m := stored(t, srv.URL(), "$KV.b.later"); m.Header.Get("Nats-TTL") != "3600s" || m.Header.Get("Nats-Marker-Reason") != "" {
		t.Errorf("headers %v", m.Header)
	}
	testkit.Eventually(t, "a value is read before it expires", func() bool {
		must[kv.Revision](t)(b.Put(ctx, "goes", "2", natskv.TTL(300*time.Millisecond)))
		e, err := b.Get(ctx, "goes")
		if d := e.Expires.Sub(e.Modified); err == nil && d != time.Second {
			t.Errorf("lives for %v; want a second", d)
		}
		return err == nil
	})
	testkit.Eventually(t, "the value expires in cache and list", func() bool {
		_, err := b.Get(ctx, "goes")
		return errors.Is(err, errNotFound) && len(keysOf(t, b, nil)) == 2
	})
	testkit.Eventually(t, "the server has removed it, too", func() bool {
		_, err := b.Create(ctx, "goes", "3")
		return err == nil
	})
	noError(t, js(t, srv.URL()).DeleteKeyValue(ctx, "b"))
	must[jetstream.KeyValue](t)(js(t, srv.URL()).CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "b"})) // again without
	must[kv.Revision](t)(b.Put(ctx, "goes", "4", natskv.TTL(time.Hour)))
	many := table[string](t, open(t, srv.URL(), nil), "many", &natskv.TableOptions{History: 3})
	_, err := many.Put(ctx, "k", "1", natskv.TTL(time.Hour))
	wantError(t, err, errInvalid)
}

// Buckets allow times to live from when the first is asked for, and are altered for it
// once: with them allowed, each write costs a server more.
func TestTimesToLiveAreAllowedWhenAskedFor(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	s := open(t, srv.URL(), nil)
	allowed := func(bucket string) bool {
		return must[jetstream.Stream](t)(js(t, srv.URL()).Stream(ctx, "KV_"+bucket)).CachedInfo().Config.AllowMsgTTL
	}
	nc := connect(t, srv.URL())
	updates := must[*nats.Subscription](t)(nc.SubscribeSync("$JS.API.STREAM.UPDATE.>"))
	noError(t, nc.Flush())
	b := table[string](t, s, "b", nil)
	must[kv.Revision](t)(b.Put(ctx, "stays", "1"))
	if allowed("b") {
		t.Error("times to live are allowed, and nobody has asked for one")
	}
	pairs := []kv.Pair[string]{{Key: "x"}, {Key: "y"}, {Key: "z"}}
	must[[]kv.Revision](t)(b.PutMany(ctx, pairs, natskv.TTL(time.Hour)))
	must[kv.Revision](t)(b.Put(ctx, "brief", "1", natskv.TTL(time.Hour)))
	noError(t, nc.Flush())
	if n, _, err := updates.Pending(); err != nil || n != 1 || !allowed("b") {
		t.Errorf("the bucket was altered %d times, %v; times to live are allowed: %v", n, err, allowed("b"))
	}
	must[kv.Revision](t)(table[string](t, s, "c", &natskv.TableOptions{TTL: time.Hour}).Put(ctx, "k", "1"))
	if !allowed("c") {
		t.Error("a table whose values have a time to live does not allow it")
	}
}

// With MarkerTTL, a watch is told that a value has expired.
func TestMarkersTellOfExpiry(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	b := table[string](t, open(t, srv.URL(), nil), "b", &natskv.TableOptions{TTL: time.Second, MarkerTTL: time.Minute})
	must[kv.Revision](t)(b.Put(t.Context(), "first", "1")) // makes the bucket
	w := follow(t, b, nil)
	testkit.Eventually(t, "synced", func() bool { return slices.Contains(w.seen(), "synced") })
	key := ""
	testkit.Eventually(t, "the watch tells that a value is there and has expired", func() bool {
		key += "k"
		must[kv.Revision](t)(b.Put(t.Context(), key, "1"))
		var seen []string // of the key
		testkit.Eventually(t, "the watch tells that the value has expired", func() bool {
			seen = slices.DeleteFunc(w.seen(), func(s string) bool { return !strings.Contains(s, " "+key+"=") })
			return slices.Contains(seen, "expire "+key+"=")
		})
		late := slices.Equal(seen, []string{"expire " + key + "="}) // a watch that is behind does not see what is gone
		if !late && !slices.Equal(seen, []string{"create " + key + "=1", "expire " + key + "="}) {
			t.Fatalf("the watch has told %q", seen)
		}
		return !late
	})
	_, err := b.Get(t.Context(), key)
	wantError(t, err, errNotFound)
}

func TestMetadata(t *testing.T) {
	eachLayout(t, natskv.Options{}, func(t *testing.T, url string, s *natskv.Store) {
		b := table[string](t, s, "app/t", nil)
		must[kv.Revision](t)(b.Put(t.Context(), "k", "1", natskv.Metadata(map[string]string{"By": "ada", "x": "<1>"})))
		e := must[kv.Entry[string]](t)(b.Get(t.Context(), "k"))
		if len(e.Metadata) != 2 || e.Metadata["By"] != "ada" || e.Metadata["x"] != "<1>" {
			t.Errorf("metadata %v", e.Metadata)
		}
		raw := table[natskv.Envelope](t, s, "app/t", nil)
		env := must[kv.Entry[natskv.Envelope]](t)(raw.Get(t.Context(), "k"))
		if env.Value.Key != "k" || string(env.Value.Data) != "1" || !bytes.Contains(env.Value.Metadata, []byte(`"By":"ada"`)) {
			t.Errorf("envelope %+v", env.Value)
		}
	})
	srv := testnats.NewServer(t, nil)
	b := table[string](t, open(t, srv.URL(), nil), "b", nil)
	for _, m := range []map[string]string{{"Nats-TTL": "1s"}, {"kv-operation": "DEL"}, {"a b": ""}, {"a": "x\r\ny"}, {"": ""}} {
		_, err := b.Put(t.Context(), "k", "1", natskv.Metadata(m))
		wantError(t, err, errInvalid)
	}
}

func TestPutManyTellsWhatIsWritten(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	b := table[string](t, open(t, srv.URL(), nil), "b", nil)
	must[kv.Revision](t)(b.Put(ctx, "k1", "old"))
	noError(t, b.Delete(ctx, "k2"))
	pairs := []kv.Pair[string]{{Key: "k0", Value: "0"}, {Key: "k1", Value: "1"}, {Key: "k2", Value: "2"}, {Key: "k3", Value: "3"}}
	revs, err := b.PutMany(ctx, pairs, natskv.IfAbsent())
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Kind != mainstem.KindConflict || string(e.Key) != "k1" {
		t.Errorf("error %v; want that k1 is there", err)
	}
	for i, want := range []bool{true, false, true, true} {
		if (revs[i] > 0) != want {
			t.Errorf("revisions %v", revs)
		}
	}
	n := len(keysOf(t, b, nil))
	_, err = b.PutMany(ctx, []kv.Pair[string]{{Key: "n0", Value: "0"}, {Key: "k1", Value: "1"}}, natskv.IfAbsent(), natskv.Atomic())
	wantError(t, err, errConflict)
	noError(t, b.Sync(ctx))
	if got := len(keysOf(t, b, nil)); got != n {
		t.Errorf("%d keys after an atomic batch that failed; want %d", got, n)
	}
	revs = must[[]kv.Revision](t)(b.PutMany(ctx, []kv.Pair[string]{{Key: "m0", Value: "0"}, {Key: "m1", Value: "1"}}, natskv.IfAbsent(), natskv.Atomic()))
	for i, k := range []string{"m0", "m1"} {
		if e := must[kv.Entry[string]](t)(b.Get(ctx, k)); e.Revision != revs[i] {
			t.Errorf("%s has revision %d; want %d", k, e.Revision, revs[i])
		}
	}
}

// Many keys and many bytes come back in portions, complete.
func TestGetManyInPortions(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	b := table[[]byte](t, open(t, srv.URL(), nil), "b", nil)
	var pairs []kv.Pair[[]byte]
	var keys []string
	for i := range 3000 {
		keys = append(keys, "k"+strconv.Itoa(i))
		pairs = append(pairs, kv.Pair[[]byte]{Key: keys[i], Value: []byte(keys[i])})
	}
	for i := range 40 { // more bytes than a server sends at once
		pairs[i*50].Value = bytes.Repeat([]byte{byte(i)}, 900_000)
	}
	must[[]kv.Revision](t)(b.PutMany(ctx, pairs))
	entries := must[[]kv.Entry[[]byte]](t)(b.GetMany(ctx, append(keys, "nix")...))
	for i, p := range pairs {
		if entries[i].Key != p.Key || !bytes.Equal(entries[i].Value, p.Value) {
			t.Fatalf("%s: %d bytes; want %d", p.Key, len(entries[i].Value), len(p.Value))
		}
	}
	if entries[len(keys)].Live() {
		t.Error("a key that is not there is live")
	}
	n := 0
	for _, err := range b.List(ctx, nil) {
		noError(t, err)
		n++
	}
	if n != len(keys) {
		t.Errorf("the list has %d entries; want %d", n, len(keys))
	}
}

func TestLargeValues(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	s := open(t, srv.URL(), &natskv.Options{CacheBytes: 8 << 20})
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	refusing := table[[]byte](t, s, "b", nil)
	_, err := refusing.Put(ctx, "k", large)
	wantError(t, err, errInvalid)
	if e := new(mainstem.Error); !errors.As(err, &e) || !strings.Contains(e.Hint, "max_payload") || e.Outcome != mainstem.NotWritten {
		t.Errorf("error %+v", err)
	}
	b := table[[]byte](t, s, "b", &natskv.TableOptions{Large: natskv.LargeObjects})
	objects := func() int {
		o := must[jetstream.ObjectStore](t)(js(t, srv.URL()).ObjectStore(ctx, "b"))
		list, err := o.List(ctx)
		if errors.Is(err, jetstream.ErrNoObjectsFound) {
			return 0
		}
		noError(t, err)
		return len(list)
	}
	must[kv.Revision](t)(b.Put(ctx, "k", large))
	must[kv.Revision](t)(b.Put(ctx, "small", []byte("s")))
	for e, err := range b.List(ctx, nil) {
		noError(t, err)
		if e.Key == "k" && !bytes.Equal(e.Value, large) {
			t.Errorf("%d bytes; want %d", len(e.Value), len(large))
		}
	}
	large[0]++
	must[kv.Revision](t)(b.Put(ctx, "k", large))
	if e := must[kv.Entry[[]byte]](t)(b.Get(ctx, "k")); !bytes.Equal(e.Value, large) || objects() != 1 {
		t.Errorf("%d bytes, %d objects", len(e.Value), objects())
	}
	_, err = b.Create(ctx, "k", large)
	wantError(t, err, errExists)
	if n := objects(); n != 1 {
		t.Errorf("%d objects after a write that failed; want 1", n)
	}
	must[uint64](t)(must[jetstream.KeyValue](t)(js(t, srv.URL()).KeyValue(ctx, "b")).Put(ctx, "k", []byte("theirs"))) // leaves the object
	if n := must[int](t)(b.SweepObjects(ctx, time.Hour)); n != 0 {
		t.Errorf("%d young objects swept", n)
	}
	if n := must[int](t)(b.SweepObjects(ctx, 0)); n != 1 || objects() != 0 {
		t.Errorf("%d objects swept, %d left", n, objects())
	}
	must[kv.Revision](t)(b.Put(ctx, "k", large))
	noError(t, b.Delete(ctx, "k"))
	if n := objects(); n != 0 {
		t.Errorf("%d objects after the deletion", n)
	}
	must[kv.Revision](t)(b.Put(ctx, "k", large))
	theirs := must[jetstream.ObjectStore](t)(js(t, srv.URL()).ObjectStore(ctx, "b"))
	must[*jetstream.ObjectInfo](t)(theirs.PutString(ctx, "theirs", "v"))
	noError(t, s.DropTable(ctx, "", "b"))
	if list := must[[]*jetstream.ObjectInfo](t)(theirs.List(ctx)); len(list) != 1 || list[0].Name != "theirs" {
		t.Errorf("%d objects after the table was dropped; want that of another client", len(list))
	}
	noError(t, theirs.Delete(ctx, "theirs"))
	must[kv.Revision](t)(b.Put(ctx, "k", large))
	noError(t, s.DropTable(ctx, "", "b"))
	_, err = js(t, srv.URL()).ObjectStore(ctx, "b")
	wantError(t, err, jetstream.ErrBucketNotFound)
}

func TestOpenRefuses(t *testing.T) {
	none := testnats.NewServer(t, &testnats.Options{Configure: func(o *server.Options) { o.JetStream = false }})
	_, err := natskv.OpenStore(t.Context(), connect(t, none.URL()), nil)
	wantError(t, err, errUnsupported)
	srv := testnats.NewServer(t, nil)
	_, err = natskv.OpenStore(t.Context(), connect(t, srv.URL()), &natskv.Options{MaxStale: 1, CacheBytes: -1})
	wantError(t, err, errInvalid)
	s := open(t, srv.URL(), &natskv.Options{Layout: natskv.Shared(true)})
	for _, o := range []natskv.TableOptions{
		{TTL: -1}, {History: 65}, {History: 2, TTL: time.Second}, {MarkerTTL: time.Hour}, {Large: natskv.LargeObjects}, {MaxAge: -1}, {Replicas: -1},
	} {
		if _, err := natskv.Open[string](s, "t", &o); !errors.Is(err, errInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	nc := connect(t, srv.URL())
	closing := must[*natskv.Store](t)(natskv.OpenStore(t.Context(), nc, nil))
	b := table[string](t, closing, "b", nil)
	nc.Close()
	_, err = b.Put(t.Context(), "k", "1")
	wantError(t, err, errClosed)
	noError(t, closing.Close())
	noError(t, closing.Close())
}

// A bucket whose index would be too large says so; other calls go on.
func TestIndexLimit(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	b := table[string](t, open(t, srv.URL(), &natskv.Options{IndexKeys: 10}), "b", nil)
	for i := range 11 {
		must[kv.Revision](t)(b.Put(t.Context(), fmt.Sprint(i), "v"))
	}
	for _, err := range b.Keys(t.Context(), nil) {
		wantError(t, err, errInvalid)
	}
	must[kv.Entry[string]](t)(b.Get(t.Context(), "3"))
}

// An answer that does not come leaves the outcome open; a server that is not there does not.
func TestOutcomes(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	b := table[string](t, open(t, srv.URL(), &natskv.Options{Timeout: 300 * time.Millisecond}), "b", nil)
	testkit.Eventually(t, "the bucket is there, and answers in time", func() bool {
		_, err := b.Put(t.Context(), "k", "1")
		return err == nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Put(ctx, "k", "2")
	if e := new(mainstem.Error); !errors.As(err, &e) || e.Kind != mainstem.KindCanceled || e.Outcome != mainstem.NotWritten {
		t.Errorf("a write under a context that has ended: %v", err)
	}
	srv.Stop()
	_, err = b.Put(t.Context(), "k", "3")
	if !errors.Is(err, errUnavailable) || !errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Errorf("a write without an answer: %v", err)
	}
	_, err = b.Get(t.Context(), "k")
	wantError(t, err, errUnavailable)
	srv.Start()
}

// A store behind a domain works as any other.
func TestDomain(t *testing.T) {
	srv := testnats.NewServer(t, &testnats.Options{Configure: func(o *server.Options) { o.JetStreamDomain = "hub" }})
	b := table[string](t, open(t, srv.URL(), &natskv.Options{APIPrefix: "$JS.hub.API"}), "b", nil)
	must[kv.Revision](t)(b.Put(t.Context(), "k", "1"))
	must[[]kv.Revision](t)(b.PutMany(t.Context(), []kv.Pair[string]{{Key: "l", Value: "2"}}))
	follow(t, b, nil).await(t, "update k=1", "update l=2", "synced")
	if got := keysOf(t, b, nil); len(got) != 2 {
		t.Errorf("keys %q", got)
	}
	if many := must[[]kv.Entry[string]](t)(b.GetMany(t.Context(), "l", "k")); many[0].Value != "2" || many[1].Value != "1" {
		t.Errorf("many %+v", many)
	}
}

// A sweep takes the objects of this package that no key refers to, also those of versions
// that did not mark them, and no object that another client keeps in the same store.
func TestSweepLeavesForeignObjects(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	o := must[jetstream.ObjectStore](t)(js(t, srv.URL()).CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "assets"}))
	const unmarked = "ABCDEFGHIJKLMNOPQRSTUVW234" // by a version before the mark
	for name, description := range map[string]string{"q3.pdf": "report", "logo.png": "", unmarked: "gone"} {
		must[*jetstream.ObjectInfo](t)(o.Put(ctx, jetstream.ObjectMeta{Name: name, Description: description}, strings.NewReader("theirs")))
	}
	b := table[[]byte](t, open(t, srv.URL(), nil), "assets", &natskv.TableOptions{Large: natskv.LargeObjects})
	must[kv.Revision](t)(b.Put(ctx, "k", bytes.Repeat([]byte("x"), 2<<20)))
	if n := must[int](t)(b.SweepObjects(ctx, 0)); n != 1 {
		t.Errorf("%d objects swept; want the one that was left over", n)
	}
	must[uint64](t)(must[jetstream.KeyValue](t)(js(t, srv.URL()).KeyValue(ctx, "assets")).Put(ctx, "k", []byte("small")))
	if n := must[int](t)(b.SweepObjects(ctx, 0)); n != 1 {
		t.Errorf("%d objects swept; want the one that was replaced", n)
	}
	var left []string
	for _, info := range must[[]*jetstream.ObjectInfo](t)(o.List(ctx)) {
		left = append(left, info.Name)
	}
	slices.Sort(left)
	if want := []string{"logo.png", "q3.pdf"}; !slices.Equal(left, want) {
		t.Errorf("left are %q; want %q", left, want)
	}
}

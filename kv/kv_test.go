package kv_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type user struct {
	Name string `json:"name"`
	Age  int    `json:"age"`
}

// each runs body on every engine of testengines, and on a directory.
func each(t *testing.T, body func(t *testing.T, log mainstem.Log)) {
	t.Helper()
	testengines.Each(t, body)
	t.Run("directory", func(t *testing.T) {
		log := must[*pebblelog.Log](t)(pebblelog.Open(t.TempDir(), &pebblelog.Options{Durability: mainstem.OS}))
		t.Cleanup(func() { check(t, log.Close()) })
		body(t, log)
	})
}

func open[T any](t testing.TB, log mainstem.Log, name string, o *kv.Options) *kv.Bucket[T] {
	t.Helper()
	b, err := kv.Open[T](log, name, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr fails the test unless err is target, and returns its *mainstem.Error.
func wantErr(t testing.TB, err, target error) *mainstem.Error {
	t.Helper()
	var e *mainstem.Error
	if !errors.Is(err, target) || !errors.As(err, &e) {
		t.Fatalf("error %v: want a *mainstem.Error that is %v", err, target)
	}
	return e
}

func put[T any](t testing.TB, b *kv.Bucket[T], key string, value T, opts ...kv.PutOption) kv.Revision {
	t.Helper()
	return must[kv.Revision](t)(b.Put(t.Context(), key, value, opts...))
}

func collect[V any](t testing.TB, seq iter.Seq2[V, error]) []V {
	t.Helper()
	var out []V
	for v, err := range seq {
		check(t, err)
		out = append(out, v)
	}
	return out
}

func spaces(t testing.TB, log mainstem.Log) []string {
	t.Helper()
	var names []string
	for _, s := range collect(t, log.Spaces(t.Context(), "")) {
		names = append(names, s.Name)
	}
	return names
}

// sweeper is what engines with a fake clock offer to remove what has expired.
type sweeper interface {
	mainstem.Log
	Sweep(ctx context.Context) error
}

// eachClock runs body on every engine whose clock can be set.
func eachClock(t *testing.T, body func(t *testing.T, log sweeper, clock *testkit.Clock)) {
	t.Run("model", func(t *testing.T) {
		clock := new(testkit.Clock)
		log := model.New(&model.Options{Now: clock.Now})
		t.Cleanup(func() { check(t, log.Close()) })
		body(t, log, clock)
	})
	t.Run("pebblelog", func(t *testing.T) {
		clock := new(testkit.Clock)
		log := must[*pebblelog.Log](t)(pebblelog.OpenMemory(&pebblelog.Options{Now: clock.Now}))
		t.Cleanup(func() { check(t, log.Close()) })
		body(t, log, clock)
	})
}

func TestPutAndGet(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		users := open[user](t, log, "app/users", nil)
		if rev := put(t, users, "42", user{"Ada", 36}); rev != 1 {
			t.Fatalf("the first revision is %d", rev)
		}
		if rev := put(t, users, "42", user{"Ada", 37}, kv.Metadata(map[string]string{"by": "test", "empty": ""})); rev != 2 {
			t.Fatalf("the second revision is %d", rev)
		}
		e := must[kv.Entry[user]](t)(users.Get(t.Context(), "42"))
		want := kv.Entry[user]{Key: "42", Value: user{"Ada", 37}, Revision: 2, Position: e.Position, Op: kv.OpUpdate,
			Modified: e.Modified, Metadata: map[string]string{"by": "test", "empty": ""}}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Fatalf("entry (-want +got):\n%s", diff)
		}
		if e.Position == 0 || e.Modified.IsZero() || !e.Live() {
			t.Fatalf("entry %+v lacks position or time, or is not live", e)
		}
	})
}

func TestGetOfWhatIsNotThere(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		users := open[user](t, log, "users", nil)
		_, err := users.Get(t.Context(), "42")
		wantErr(t, err, mainstem.ErrNotFound)
		put(t, users, "other", user{})
		_, err = users.Get(t.Context(), "42")
		if e := wantErr(t, err, mainstem.ErrNotFound); string(e.Key) != "42" || e.Space != "kv/default/users" {
			t.Fatalf("error %+v does not say which key of which space", e)
		}
		put(t, users, "42", user{})
		check(t, users.Delete(t.Context(), "42"))
		_, err = users.Get(t.Context(), "42")
		wantErr(t, err, mainstem.ErrNotFound)
	})
}

func TestReadsCreateNothing(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "app/none", nil)
		_, err := b.Get(ctx, "k")
		wantErr(t, err, mainstem.ErrNotFound)
		_, err = b.GetRevision(ctx, "k", 1)
		wantErr(t, err, mainstem.ErrNotFound)
		many := must[[]kv.Entry[string]](t)(b.GetMany(ctx, "k", "l"))
		if len(many) != 2 || many[0].Key != "k" || many[0].Live() || many[1].Live() {
			t.Fatalf("GetMany on a missing table: %+v", many)
		}
		if got := collect(t, b.List(ctx, nil)); len(got) != 0 {
			t.Fatalf("List on a missing table: %v", got)
		}
		if got := collect(t, b.Keys(ctx, nil)); len(got) != 0 {
			t.Fatalf("Keys on a missing table: %v", got)
		}
		if got := collect(t, b.History(ctx, "k", mainstem.Versions{})); len(got) != 0 {
			t.Fatalf("History on a missing table: %v", got)
		}
		if got := collect(t, b.History(ctx, "k", mainstem.Versions{Reverse: true})); len(got) != 0 {
			t.Fatalf("reverse History on a missing table: %v", got)
		}
		if n := must[int64](t)(b.Count(ctx, nil)); n != 0 {
			t.Fatalf("Count on a missing table: %d", n)
		}
		page, next, err := b.Page(ctx, nil)
		if err != nil || len(page) != 0 || next != "" {
			t.Fatalf("Page on a missing table: %v, %q, %v", page, next, err)
		}
		for e, err := range b.Watch(ctx, nil) {
			if err != nil || e.Op != kv.OpSynced {
				t.Fatalf("Watch on a missing table: %+v, %v", e, err)
			}
			break
		}
		check(t, b.Delete(ctx, "k"))
		check(t, b.Purge(ctx, "k"))
		wantErr(t, b.Drop(ctx), mainstem.ErrNotFound)
		if got := spaces(t, log); len(got) != 0 {
			t.Fatalf("reads created %q", got)
		}
	})
}

func TestBytesAreExact(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		type blob []byte
		plain := open[[]byte](t, log, "plain", nil)
		named := open[blob](t, log, "named", &kv.Options{Codec: rawCodec})
		for _, v := range [][]byte{nil, {}, {0}, []byte("text"), {0xff, 0xfe}} {
			put(t, plain, "k", v)
			put(t, named, "k", blob(v))
			got := must[kv.Entry[[]byte]](t)(plain.Get(t.Context(), "k")).Value
			if (got == nil) != (v == nil) || string(got) != string(v) {
				t.Errorf("Get gives %#v for %#v", got, v)
			}
			list := collect(t, plain.List(t.Context(), nil))[0].Value
			if (list == nil) != (v == nil) || string(list) != string(v) {
				t.Errorf("List gives %#v for %#v", list, v)
			}
			other := must[kv.Entry[blob]](t)(named.Get(t.Context(), "k")).Value
			if (other == nil) != (v == nil) || string(other) != string(v) {
				t.Errorf("Get of a named type gives %#v for %#v", other, v)
			}
		}
	})
}

// Values of []byte are borrowed and lent without copies where that is safe:
// what a reader does to its entry must not reach others.
func TestEntriesBelongToTheReader(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[[]byte](t, log, "b", &kv.Options{History: 2})
		v := []byte("value")
		put(t, b, "k", v)
		clear(v) // ours again after Put
		e := must[kv.Entry[[]byte]](t)(b.Get(t.Context(), "k"))
		clear(e.Value)
		for _, e := range collect(t, b.List(t.Context(), nil)) {
			clear(e.Value)
		}
		for _, e := range collect(t, b.History(t.Context(), "k", mainstem.Versions{})) {
			clear(e.Value)
		}
		many := must[[]kv.Entry[[]byte]](t)(b.GetMany(t.Context(), "k", "k"))
		clear(many[0].Value)
		if string(many[1].Value) != "value" {
			t.Fatalf("two entries of GetMany share memory: %q", many[1].Value)
		}
		e = must[kv.Entry[[]byte]](t)(b.Get(t.Context(), "k"))
		if string(e.Value) != "value" {
			t.Fatalf("the stored value became %q", e.Value)
		}
	})
}

func TestKeys(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[string](t, log, "t", nil)
		keys := []string{"\x00", "\x00\x00", "a", "a\x00", "a\x00b", "a/b", "käse", "日本", "\xff", "\xff\xff", " ", strings.Repeat("k", mainstem.MaxKey)}
		for _, k := range keys {
			put(t, b, k, "value of "+k)
		}
		for _, k := range keys {
			if e := must[kv.Entry[string]](t)(b.Get(t.Context(), k)); e.Value != "value of "+k || e.Key != k {
				t.Errorf("Get(%q) = %+v", k, e)
			}
		}
		slices.Sort(keys)
		if got := collect(t, b.Keys(t.Context(), nil)); !slices.Equal(got, keys) {
			t.Errorf("keys %q: want %q", got, keys)
		}
		slices.Reverse(keys)
		if got := collect(t, b.Keys(t.Context(), &kv.Query{Reverse: true})); !slices.Equal(got, keys) {
			t.Errorf("reverse keys %q: want %q", got, keys)
		}
	})
}

func TestInvalidKeysAndOptions(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", nil)
		for _, key := range []string{"", strings.Repeat("k", mainstem.MaxKey+1)} {
			_, err := b.Put(ctx, key, "v")
			if e := wantErr(t, err, mainstem.ErrInvalid); e.Outcome != mainstem.NotWritten {
				t.Errorf("Put of a bad key: outcome %q", e.Outcome)
			}
			batch := mainstem.NewBatch()
			b.PutTo(batch, "good", "v")
			b.PutTo(batch, key, "v")
			_, err = log.Commit(ctx, batch)
			wantErr(t, err, mainstem.ErrInvalid)
			_, err = b.Get(ctx, key)
			wantErr(t, err, mainstem.ErrInvalid)
			_, err = b.GetRevision(ctx, key, 1)
			wantErr(t, err, mainstem.ErrInvalid)
			_, err = b.GetMany(ctx, "good", key)
			wantErr(t, err, mainstem.ErrInvalid)
			wantErr(t, b.Delete(ctx, key), mainstem.ErrInvalid)
			for _, err := range b.History(ctx, key, mainstem.Versions{}) {
				wantErr(t, err, mainstem.ErrInvalid)
			}
			_, err = b.Modify(ctx, key, func(string, bool) (string, error) { return "", nil })
			wantErr(t, err, mainstem.ErrInvalid)
		}
		for name, write := range map[string]func() error{
			"negative TTL":    func() error { _, err := b.Put(ctx, "k", "v", kv.TTL(-1)); return err },
			"two conditions":  func() error { _, err := b.Put(ctx, "k", "v", kv.IfAbsent(), kv.IfExists()); return err },
			"nil option":      func() error { _, err := b.Put(ctx, "k", "v", nil); return err },
			"empty condition": func() error { return b.Delete(ctx, "k", kv.Condition{}) },
			"empty condition in ExpectTo": func() error {
				batch := mainstem.NewBatch()
				b.ExpectTo(batch, "k", kv.Condition{})
				_, err := log.Commit(ctx, batch)
				return err
			},
			"reserved metadata": func() error {
				_, err := b.Put(ctx, "k", "v", kv.Metadata(map[string]string{"kv:x": ""}))
				return err
			},
			"negative limit":  func() error { _, err := b.Count(ctx, &kv.Query{Limit: -1}); return err },
			"negative offset": func() error { _, _, err := b.Page(ctx, &kv.Query{Offset: -1}); return err },
			"negative page":   func() error { _, _, err := b.Page(ctx, &kv.Query{Limit: -7}); return err },
		} {
			if err := write(); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%s: error %v: want Invalid", name, err)
			}
		}
		if got := spaces(t, log); len(got) != 0 {
			t.Errorf("invalid writes created %q", got)
		}
	})
}

func TestBatchSpansViews(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		users := open[user](t, log, "app/users", nil)
		names := open[string](t, log, "app/names", nil)
		batch := mainstem.NewBatch()
		users.PutTo(batch, "42", user{"Ada", 36}, kv.IfAbsent())
		names.PutTo(batch, "Ada", "42")
		r := must[mainstem.Receipt](t)(log.Commit(ctx, batch))
		if !slices.Equal(r.Versions, []mainstem.Version{1, 1}) {
			t.Fatalf("versions %v", r.Versions)
		}

		batch = mainstem.NewBatch()
		names.DeleteTo(batch, "Ada")
		names.PutTo(batch, "Grace", "42")
		users.ExpectTo(batch, "42", kv.IfRevision(9))
		_, err := log.Commit(ctx, batch)
		if e := wantErr(t, err, mainstem.ErrConflict); e.Got != 1 || e.Want.Version != 9 {
			t.Fatalf("conflict %+v: want 9, got 1", e)
		}
		if got := collect(t, names.Keys(ctx, nil)); !slices.Equal(got, []string{"Ada"}) {
			t.Fatalf("a failed batch left %q", got)
		}

		batch = mainstem.NewBatch()
		names.PurgeTo(batch, "Ada")
		names.DeleteTo(batch, "never written")
		users.ExpectTo(batch, "42", kv.IfRevision(1))
		must[mainstem.Receipt](t)(log.Commit(ctx, batch))
		if got := collect(t, names.Keys(ctx, nil)); len(got) != 0 {
			t.Fatalf("keys left: %q", got)
		}
	})
}

func TestBatchDeleteCreatesTheTable(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[string](t, log, "t", nil)
		batch := mainstem.NewBatch()
		b.DeleteTo(batch, "k")
		must[mainstem.Receipt](t)(log.Commit(t.Context(), batch))
		if got := spaces(t, log); !slices.Equal(got, []string{"kv/default/t"}) {
			t.Fatalf("spaces %q", got)
		}
	})
}

func TestUnencodableAndUndecodable(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		bad := open[any](t, log, "t", nil)
		_, err := bad.Put(ctx, "k", make(chan int))
		if e := wantErr(t, err, mainstem.ErrInvalid); e.Outcome != mainstem.NotWritten || !strings.Contains(err.Error(), "chan int") {
			t.Fatalf("error %v does not say that nothing was written, and why", err)
		}
		text := open[string](t, log, "t", nil)
		put(t, text, "a", `{"name":"Ada"}`)
		put(t, text, "b", `not JSON`, kv.Metadata(map[string]string{"m": "x"}))
		put(t, text, "c", `{"name":"Grace"}`)

		users := open[user](t, log, "t", nil)
		e, err := users.Get(ctx, "b")
		wantErr(t, err, mainstem.ErrCorrupt)
		if e.Key != "b" || e.Revision != 1 || e.Metadata["m"] != "x" {
			t.Fatalf("entry %+v lacks what can be read", e)
		}
		var names, failed []string
		for e, err := range users.List(ctx, nil) {
			if err != nil {
				wantErr(t, err, mainstem.ErrCorrupt)
				failed = append(failed, e.Key)
				continue
			}
			names = append(names, e.Value.Name)
		}
		if !slices.Equal(names, []string{"Ada", "Grace"}) || !slices.Equal(failed, []string{"b"}) {
			t.Fatalf("List gives %q and fails at %q", names, failed)
		}
		_, err = users.GetMany(ctx, "a", "b")
		wantErr(t, err, mainstem.ErrCorrupt)
		_, err = users.Modify(ctx, "b", func(u user, _ bool) (user, error) { return u, nil })
		wantErr(t, err, mainstem.ErrCorrupt)
	})
}

func TestContextEnds(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[int](t, log, "t", nil)
		put(t, b, "k", 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := b.Put(ctx, "k", 2)
		wantErr(t, err, mainstem.ErrCanceled)
		_, err = b.Get(ctx, "k")
		wantErr(t, err, mainstem.ErrCanceled)
		_, err = b.GetMany(ctx, "k", "l")
		wantErr(t, err, mainstem.ErrCanceled)
		_, err = kv.Increment(ctx, b, "k", 1)
		wantErr(t, err, mainstem.ErrCanceled)
		_, err = b.Count(ctx, nil)
		wantErr(t, err, mainstem.ErrCanceled)
		for _, err := range b.Watch(ctx, nil) {
			wantErr(t, err, mainstem.ErrCanceled)
		}
		if e := must[kv.Entry[int]](t)(b.Get(t.Context(), "k")); e.Value != 1 || e.Revision != 1 {
			t.Fatalf("a cancelled call wrote: %+v", e)
		}
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func modelLog(t testing.TB) mainstem.Log {
	log := model.New(nil)
	t.Cleanup(func() { check(t, log.Close()) })
	return log
}

func memory(t testing.TB) (mainstem.Log, error) {
	t.Helper()
	log, err := pebblelog.OpenMemory(nil)
	if err == nil {
		t.Cleanup(func() { check(t, log.Close()) })
	}
	return log, err
}

package natskv_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
	"github.com/mainstemdev/mainstem/kv"
)

func tables(t *testing.T, s *natskv.Store) []string {
	t.Helper()
	var names []string
	for x, err := range s.Tables(t.Context()) {
		noError(t, err)
		names = append(names, fmt.Sprintf("%s=%s/%s", x.Bucket, x.Database, x.Name))
	}
	slices.Sort(names)
	return names
}

func TestDropIsExact(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	s := open(t, srv.URL(), &natskv.Options{Layout: orb(t, natskv.OrbDefaults())})
	for _, name := range []string{"a/b_c", "app/t", "app/u", "app/", "app2/t", "app_x/t"} {
		must[kv.Revision](t)(table[string](t, s, name, nil).Put(ctx, "k", "v"))
	}
	wantError(t, s.DropTable(ctx, "a_b", "c"), errExists) // the same bucket, another table
	wantError(t, s.DropTable(ctx, "app", "never"), errNotFound)
	wantError(t, s.DropDatabase(ctx, "never"), errNotFound)
	noError(t, s.DropTable(ctx, "app", "u"))
	noError(t, s.DropDatabase(ctx, "app"))
	if got, want := tables(t, s), []string{"a_b_c=a/b_c", "app2_t=app2/t", "app_x_t=app_x/t"}; !slices.Equal(got, want) {
		t.Errorf("left are %q; want %q", got, want)
	}
	if got := keysOf(t, table[string](t, s, "app/t", nil), nil); got != nil {
		t.Errorf("keys of a table that was dropped: %q", got)
	}
	must[kv.Revision](t)(table[string](t, s, "app/t", nil).Put(ctx, "new", "v")) // anew
	if got := keysOf(t, table[string](t, s, "app/t", nil), nil); !slices.Equal(got, []string{"new"}) {
		t.Errorf("keys of a table that was made anew: %q", got)
	}
}

// A bucket of another client is not dropped with a database on the strength of its
// name; once adopted, it is.
func TestDropDatabaseAsksAboutOthersBuckets(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	s := open(t, srv.URL(), &natskv.Options{Layout: orb(t, natskv.OrbDefaults())})
	must[jetstream.KeyValue](t)(js(t, srv.URL()).CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "app_t", Description: "theirs", History: 3}))
	wantError(t, s.DropDatabase(ctx, "app"), errInvalid)
	wantError(t, s.Adopt(ctx, "app", "never"), errNotFound)
	noError(t, s.Adopt(ctx, "app", "t"))
	noError(t, s.Adopt(ctx, "app", "t"))
	must[kv.Revision](t)(table[string](t, s, "a/b_c", nil).Put(ctx, "k", "v"))
	wantError(t, s.Adopt(ctx, "a_b", "c"), errExists)
	info := must[jetstream.Stream](t)(js(t, srv.URL()).Stream(ctx, "KV_app_t")).CachedInfo().Config
	if info.Description != "theirs" || info.MaxMsgsPerSubject != 3 {
		t.Errorf("adopting has changed the bucket: %+v", info)
	}
	noError(t, s.DropDatabase(ctx, "app"))
	if got := tables(t, s); !slices.Equal(got, []string{"a_b_c=a/b_c"}) {
		t.Errorf("left are %q", got)
	}
}

// In a bucket with many tables, a table goes with its keys only: not those of a
// table whose name goes on after an underline.
func TestDropTableInASharedBucket(t *testing.T) {
	for _, l := range []natskv.Layout{natskv.GoMicro(false), natskv.Shared(true)} {
		srv := testnats.NewServer(t, nil)
		ctx := t.Context()
		s := open(t, srv.URL(), &natskv.Options{Layout: l})
		for _, name := range []string{"app/t", "app/t_x", "app/u", "app/"} {
			must[kv.Revision](t)(table[string](t, s, name, nil).Put(ctx, "k", name))
		}
		foreign := connect(t, srv.URL())
		key := must[string](t)(table[string](t, s, "app/t", nil).Subject("foreign"))
		must[*nats.Msg](t)(foreign.Request(key, []byte("no envelope"), time.Minute))
		noError(t, s.DropTable(ctx, "app", "t"))
		_, err := table[string](t, s, "app/t", nil).Get(ctx, "foreign")
		wantError(t, err, mainstem.ErrCorrupt) // whose it is, nobody knows: it stays
		_, err = table[string](t, s, "app/t", nil).Get(ctx, "k")
		wantError(t, err, errNotFound)
		for _, name := range []string{"app/t_x", "app/u", "app/"} {
			if _, err := table[string](t, s, name, nil).Get(ctx, "k"); err != nil {
				t.Errorf("%s: dropping t has dropped %s: %v", l, name, err)
			}
		}
		wantError(t, s.DropTable(ctx, "app", ""), errInvalid)
		wantError(t, s.DropTable(ctx, "never", "t"), errNotFound)
		noError(t, s.DropDatabase(ctx, "app"))
		wantError(t, s.DropDatabase(ctx, "app"), errNotFound)
	}
	s := open(t, testnats.NewServer(t, nil).URL(), &natskv.Options{Layout: orb(t, natskv.OrbOptions{})})
	err := s.DropTable(t.Context(), "app", "t")
	wantError(t, err, errUnsupported)
	if text := "can't drop table when bucket per table is disabled"; !strings.Contains(err.Error(), text) {
		t.Errorf("DropTable without a bucket for each table: %v, want the text of go-orb's plug-in: %s", err, text)
	}
}

// What others have written under subjects that are no keys of a layout is in no list:
// Get would refuse it.
func TestKeysAreThoseThatGetTakes(t *testing.T) {
	eachLayout(t, natskv.Options{}, func(t *testing.T, url string, s *natskv.Store) {
		ctx := t.Context()
		b := table[string](t, s, "app/t", nil)
		must[kv.Revision](t)(b.Put(ctx, "ours", "v"))
		nc := connect(t, url)
		streams := js(t, url)
		for name := range streams.StreamNames(ctx).Name() {
			bucket, ok := strings.CutPrefix(name, "KV_")
			if !ok {
				continue
			}
			for _, token := range []string{"t_a%b", "t_a@b", "t_", "t_caf\u00e9", "a!b", "MFRGG=", strings.Repeat("k", natskv.MaxToken+1)} {
				must[*nats.Msg](t)(nc.Request("$KV."+bucket+"."+token, []byte(`{"key":"k","data":"MQ=="}`), time.Minute))
			}
		}
		noError(t, b.Sync(ctx))
		for _, key := range keysOf(t, b, nil) {
			if _, err := b.Get(ctx, key); errors.Is(err, errInvalid) {
				t.Errorf("Keys has %q: Get: %v", key, err)
			}
		}
		if n := must[int64](t)(b.Count(ctx, &kv.Query{Prefix: "ours"})); n != 1 {
			t.Errorf("%d of our keys are listed, want 1", n)
		}
	})
}

// Keys that an operator has purged from the stream, without a message, go from lists.
func TestAuditFindsRemovedKeys(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	b := table[string](t, open(t, srv.URL(), &natskv.Options{AuditEvery: 10 * time.Millisecond, MaxStale: natskv.MinMaxStale}), "b", nil)
	for i := range 5 {
		must[kv.Revision](t)(b.Put(ctx, fmt.Sprint("k", i), "v"))
	}
	must[kv.Revision](t)(b.Put(ctx, "brief", "v", natskv.TTL(time.Second)))
	must[int64](t)(b.Count(ctx, nil))
	st := must[jetstream.Stream](t)(js(t, srv.URL()).Stream(ctx, "KV_b"))
	noError(t, st.Purge(ctx, jetstream.WithPurgeSubject("$KV.b.k3")))
	testkit.Eventually(t, "the purged key is listed", func() bool {
		return slices.Equal(keysOf(t, b, &kv.Query{Prefix: "k"}), []string{"k0", "k1", "k2", "k4"})
	})
}

func TestHistoryAndModify(t *testing.T) {
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	b := table[string](t, open(t, srv.URL(), nil), "b", &natskv.TableOptions{History: 5})
	for range b.History(ctx, "k") {
		t.Error("a key that is not there has a history")
	}
	add := func(old string, found bool) (string, error) { return fmt.Sprint(old, found), nil }
	first := must[kv.Revision](t)(b.Modify(ctx, "k", add))
	must[kv.Revision](t)(b.Modify(ctx, "k", add))
	noError(t, b.Delete(ctx, "k"))
	must[kv.Revision](t)(b.Modify(ctx, "k", add))
	failed := errors.New("no")
	_, err := b.Modify(ctx, "k", func(string, bool) (string, error) { return "", failed })
	wantError(t, err, failed)
	var got []string
	for e, err := range b.History(ctx, "k") {
		noError(t, err)
		got = append(got, fmt.Sprintf("%d %s %s", e.Revision, e.Op, e.Value))
	}
	if want := []string{"1 update false", "2 update falsetrue", "3 delete ", "4 create false"}; !slices.Equal(got, want) {
		t.Errorf("history %q; want %q", got, want)
	}
	if e := must[kv.Entry[string]](t)(b.GetRevision(ctx, "k", first)); e.Value != "false" {
		t.Errorf("revision %d is %q", first, e.Value)
	}
	_, err = b.GetRevision(ctx, "other", first)
	wantError(t, err, errNotFound)
}
